"""Intervals for rates and means, with cases or families as units.

A case with several trials counts once, by its mean; cases of one family vary together. So standard errors are taken
between units (CR1: cluster-robust with the G/(G-1) correction) and t has units - 1 degrees of freedom
(Miller 2024, arXiv 2411.00640). Rates get Wilson's interval (1927), which stays inside 0..1.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Sequence
from dataclasses import dataclass

from mst.errors import InvariantError
from mst.stats.cases import SideTotals, TrialCounts, totals, unit_sums
from mst.stats.special import beta_quantile, two_sided_t, two_sided_z


@dataclass(frozen=True, slots=True)
class Interval:
    """A two-sided interval. Both ends are None when it is undefined; `reason` then says why."""

    low: float | None
    high: float | None
    level: float
    reason: str = ""

    def clipped(self, low: float, high: float) -> Interval:
        """The part of it that is possible for a quantity between `low` and `high`."""
        if self.low is None or self.high is None:
            return self
        return Interval(max(low, self.low), min(high, self.high), self.level)


@dataclass(frozen=True, slots=True)
class RateEstimate:
    """A pass rate.

    Attributes:
        rate: mean over cases of a case's share of passed trials; None when nothing was scored.
        se: standard error between units; None with fewer than two units.
        interval: Wilson's, on `n_effective`.
        n_effective: how many independent one-trial cases would be as certain.
        n_cases: cases with a scored trial.
        n_units: those cases, with a family counted once.
        one_trial: every case had the same result in all its trials, so one trial a case was used.
        trials: planned, scored, errored and missing trials.
    """

    rate: float | None
    se: float | None
    interval: Interval
    n_effective: float
    n_cases: int
    n_units: int
    one_trial: bool
    trials: SideTotals


@dataclass(frozen=True, slots=True)
class MeanEstimate:
    """A mean of a metric.

    Attributes:
        mean: over the values that there are; None without any.
        se: standard error between units; None with fewer than two units.
        n: values used. `missing` values were null and are not zero: they are left out.
        n_units: values, with a family counted once.
    """

    mean: float | None
    se: float | None
    interval: Interval
    n: int
    n_units: int
    missing: int


def wilson(passed: float, n: float, level: float = 0.95) -> Interval:
    """Wilson's score interval of a proportion. `n` may be an effective, fractional number; ends 0 and 1 are exact."""
    if n <= 0:
        return Interval(None, None, level, "nothing was scored")
    z = two_sided_z(level)
    rate, weight = passed / n, z * z / n
    centre = (rate + weight / 2) / (1 + weight)
    half = z / (1 + weight) * math.sqrt(rate * (1 - rate) / n + weight / (4 * n))
    return Interval(
        0.0 if passed <= 0 else max(0.0, centre - half), 1.0 if passed >= n else min(1.0, centre + half), level
    )


def clopper_pearson(passed: int, n: int, level: float = 0.95) -> Interval:
    """The exact binomial interval: never covers too little, usually too much (Clopper and Pearson 1934)."""
    if n <= 0:
        return Interval(None, None, level, "nothing was scored")
    tail = (1 - level) / 2
    low = beta_quantile(tail, passed, n - passed + 1) if passed else 0.0
    high = beta_quantile(1 - tail, passed + 1, n - passed) if passed < n else 1.0
    return Interval(low, high, level)


def newcombe(passed_a: int, n_a: int, passed_b: int, n_b: int, level: float = 0.95) -> Interval:
    """Difference a - b of two independent proportions (Newcombe 1998, method 10). Not for paired cases."""
    a, b = wilson(passed_a, n_a, level), wilson(passed_b, n_b, level)
    if a.low is None or a.high is None or b.low is None or b.high is None:
        return Interval(None, None, level, "nothing was scored")
    rate_a, rate_b = passed_a / n_a, passed_b / n_b
    return Interval(
        rate_a - rate_b - math.hypot(rate_a - a.low, b.high - rate_b),
        rate_a - rate_b + math.hypot(a.high - rate_a, rate_b - b.low),
        level,
    )


def zero_failures_bound(n: int, level: float = 0.95) -> tuple[float, float]:
    """Upper bound of a failure rate when n trials showed none: (exact, by the rule of three generalised to `level`)."""
    if n <= 0:
        raise InvariantError("a bound needs at least one trial")
    return 1 - (1 - level) ** (1 / n), min(1.0, round(-math.log(1 - level)) / n)


def cluster_se(values: Sequence[float], families: Sequence[Hashable | None] | None = None) -> tuple[float | None, int]:
    """CR1 standard error of the mean and the number of units; without families, sd/sqrt(n).

    A family of None is a unit of its own. The error is None with fewer than two units.
    """
    n = len(values)
    mean = math.fsum(values) / n if n else 0.0
    residuals = unit_sums([value - mean for value in values], families)
    units = len(residuals)
    if units < 2:
        return None, units
    se = math.sqrt(units / (units - 1) * math.fsum(residual * residual for residual in residuals)) / n
    # Equal values leave rounding noise: their mean is not always the same float.
    return (se if se > 1e-13 * max(map(abs, values)) else 0.0), units


def mean_t(
    values: Sequence[float | None], families: Sequence[Hashable | None] | None = None, level: float = 0.95
) -> MeanEstimate:
    """Mean with a t-interval between units. Null values are left out and counted."""
    kept = [index for index, value in enumerate(values) if value is not None]
    scored = [value for value in values if value is not None]
    missing = len(values) - len(scored)
    if not scored:
        return MeanEstimate(None, None, Interval(None, None, level, "there is no value"), 0, 0, missing)
    mean = math.fsum(scored) / len(scored)
    se, units = cluster_se(scored, [families[index] for index in kept] if families is not None else None)
    return MeanEstimate(mean, se, t_interval(mean, se, units, level), len(scored), units, missing)


def t_interval(mean: float, se: float | None, units: int, level: float) -> Interval:
    """The mean +- t(units - 1) x se. Undefined when there is no spread to learn from."""
    if se is None:
        return Interval(None, None, level, f"needs at least two units, there is {units}")
    if se == 0:
        return Interval(
            None, None, level, f"all {units} units have the same value, so nothing is known of their spread"
        )
    reach = two_sided_t(level, units - 1) * se
    return Interval(mean - reach, mean + reach, level)


def pass_rate(
    cases: Sequence[TrialCounts], families: Sequence[Hashable | None] | None = None, level: float = 0.95
) -> RateEstimate:
    """Pass rate of one variant over cases, with Wilson's interval.

    One trial a case, no families: plain Wilson. Otherwise Wilson on n* = m(1-m)/SE^2; on the number of units where that
    is undefined (rate 0 or 1, or no spread). n* never passes the number of scored trials, since independent trials
    cannot be less certain than that; chance alone can make the observed spread smaller.
    """
    kept = [index for index, case in enumerate(cases) if case.scored]
    scored = [cases[index] for index in kept]
    groups = [families[index] for index in kept] if families is not None else None
    trials = totals(cases)
    if not scored:
        return RateEstimate(None, None, wilson(0, 0, level), 0, 0, 0, one_trial=False, trials=trials)
    means = [case.passed / case.scored for case in scored]
    rate = math.fsum(means) / len(means)
    se, units = cluster_se(means, groups)
    same = all(case.passed in (0, case.scored) for case in scored)
    one_trial = same and any(case.scored > 1 for case in scored)
    if not se or rate in (0, 1) or (same and units == len(scored)):
        n_effective: float = units
    else:
        n_effective = min(rate * (1 - rate) / (se * se), len(scored) if same else trials.scored)
    interval = wilson(rate * n_effective, n_effective, level)
    return RateEstimate(rate, se, interval, n_effective, len(scored), units, one_trial=one_trial, trials=trials)
