"""Numbers of `summary.json` that stand beside rates and verdicts."""

from __future__ import annotations

from mst.model.base import Model


class Rate(Model):
    """An interval."""

    lower: float
    upper: float


class PositionUse(Model):
    """How a pairwise judge that was asked in both orders used the two slots."""

    pairs: int
    """Pairs of answers that it saw in both orders."""
    consistent: int
    flips_to_first: int
    flips_to_second: int
    half_flips: int
    """One order a tie, the other not."""
    p_flips: float
    """Two-sided exact p of the flips leaning to one slot."""
    first_share: float | None = None
    """Share of the decisive answers that name the first slot."""
    decisive: int
    """Those answers."""


class RepeatRate(Model):
    """What k of a case's trials do, without bias; means over the cases with at least k scored trials."""

    k: int
    pass_at_k: float | None = None
    """Any of k passes."""
    pass_at_k_interval: Rate | None = None
    pass_hat_k: float | None = None
    """All of k pass."""
    pass_hat_k_interval: Rate | None = None
    cases: int
    too_few: int
    """Cases left out: they have fewer scored trials."""


class GroupSummary(Model):
    """A variant on the capability, regression or held-out cases alone."""

    cases: int
    passed: int
    failed: int
    unscored: int
    pass_rate: float | None = None
    pass_rate_interval: Rate | None = None


class EnoughRecord(Model):
    """Whether a comparison has enough data, and what would be enough."""

    units: int
    """Cases or families compared."""
    decisive_units: int
    decisive_needed: int
    """Fewest units that must differ before any verdict is possible."""
    smallest_p: float
    """One-sided p if every unit that differs pointed the same way."""
    power: float
    detectable: float | None = None
    """Smallest true difference found with that power; None without spread."""
    wanted: float
    units_for_wanted: int | None = None
    """Units that find `wanted` with that power; None without spread."""
    more_trials_add_nothing: bool


class MetricDifference(Model):
    """A metric's mean difference, candidate less baseline, over the cases where both know it. Never a verdict."""

    difference: float | None = None
    interval: Rate | None = None
    level: float
    cases: int
    units: int
    unknown: int
    """Cases left out because a side has no value."""
    reason: str | None = None
    """Why there is no interval."""


class RegressionRecord(Model):
    """One case tagged `regression` that passes less often under the candidate."""

    case_id: str
    baseline_passed: int
    baseline_scored: int
    candidate_passed: int
    candidate_scored: int
    p: float
    """One-sided, Fisher's exact test on the trials."""
    p_holm: float
    evidence: bool
    trials_needed: int | None = None
    """Trials a side that would make the clearest fall evidence, when there were fewer."""
