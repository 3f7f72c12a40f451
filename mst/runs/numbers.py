"""The summary's numbers beside rates and verdicts, each from a run's totals. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from mst.model.numbers import (
    EnoughRecord,
    GroupSummary,
    MetricDifference,
    PositionUse,
    Rate,
    RegressionRecord,
    RepeatRate,
)
from mst.runs.totals import PairwiseTotals, Totals
from mst.stats.cases import TrialCounts
from mst.stats.compare import Comparison
from mst.stats.decision import Verdict
from mst.stats.intervals import Interval, pass_rate
from mst.stats.power import enough_data
from mst.stats.preferences import position_bias
from mst.stats.repeats import over_cases, shown_k

GROUPS = ("capability", "regression", "held-out")
WANTED = 0.1
"""A difference of pass rates worth finding, for the number of cases that it takes."""
POWER = 0.8
ABSENT = TrialCounts(passed=0, scored=0, planned=0)


def rate_record(interval: Interval) -> Rate | None:
    """An interval as it is stored; None when it is undefined."""
    if interval.low is None or interval.high is None:
        return None
    return Rate(lower=interval.low, upper=interval.high)


def repeats(totals: Totals, variant: str) -> list[RepeatRate]:
    """pass@k and pass^k of a variant by k; empty when no case has two scored trials.

    Both are the pass rate when k is 1, and then have its interval (Wilson's).
    """
    sides = [(case.by_variant.get(variant, ABSENT), case.family) for case in totals.cases]
    scored = [(side, family) for side, family in sides if side.scored]
    most = max((side.scored for side, _ in scored), default=0)
    if most < 2:
        return []
    families = _families([family for _, family in scored])
    rate = rate_record(pass_rate([side for side, _ in scored], families).interval)
    found = []
    for k in shown_k(most):
        rates = over_cases([(side.scored, side.passed) for side, _ in scored], k, families)
        found.append(
            RepeatRate(
                k=k,
                pass_at_k=rates.pass_at_k,
                pass_at_k_interval=rate if k == 1 else rate_record(rates.at_interval()),
                pass_hat_k=rates.pass_hat_k,
                pass_hat_k_interval=rate if k == 1 else rate_record(rates.hat_interval()),
                cases=rates.n_cases,
                too_few=rates.too_few,
            )
        )
    return found


def groups(totals: Totals, variant: str) -> dict[str, GroupSummary]:
    """A variant's cases by group, for the groups that the run has."""
    found = {}
    for group in GROUPS:
        cases = [case for case in totals.cases if case.group == group]
        outcomes = totals.group_cases.get((variant, group))
        if not cases or outcomes is None:
            continue
        sides = [case.by_variant.get(variant, ABSENT) for case in cases]
        estimate = pass_rate(sides, _families([case.family for case in cases]))
        found[group] = GroupSummary(
            cases=outcomes.total(),
            passed=outcomes[True],
            failed=outcomes[False],
            unscored=outcomes[None],
            pass_rate=estimate.rate,
            pass_rate_interval=rate_record(estimate.interval),
        )
    return found


def position(found: PairwiseTotals) -> PositionUse | None:
    """How a pairwise judge used the slots; None when it saw no pair in both orders."""
    if not found.slots:
        return None
    bias = position_bias(list(found.slots.elements()))
    return PositionUse(
        pairs=bias.pairs,
        consistent=bias.consistent,
        flips_to_first=bias.flips_to_first,
        flips_to_second=bias.flips_to_second,
        half_flips=bias.half_flips,
        p_flips=bias.p_flips,
        first_share=bias.first_share,
        decisive=sum(((a != "tie") + (b != "tie")) * count for (a, b), count in found.slots.items()),
    )


def enough(verdict: Verdict) -> EnoughRecord | None:
    """Whether a verdict's comparison had enough data; None when nothing was compared."""
    comparison = verdict.comparison
    if not comparison.n_cases:
        return None
    found = enough_data(comparison, n_candidates=verdict.n_candidates, wanted=WANTED, power=POWER)
    return EnoughRecord(
        units=comparison.n_units,
        decisive_units=comparison.decisive_units,
        decisive_needed=verdict.decisive_needed,
        smallest_p=found.smallest_p,
        power=POWER,
        detectable=found.detectable,
        wanted=WANTED,
        units_for_wanted=found.units_for_effect,
        more_trials_add_nothing=found.more_trials_add_nothing,
    )


def metric_differences(totals: Totals, candidate: str) -> dict[str, MetricDifference]:
    """A candidate's continuous metrics less the baseline's, with t-intervals between units."""
    differences = totals.differences.get(candidate)
    if differences is None:
        return {}
    return {
        name: MetricDifference(
            difference=found.mean,
            interval=rate_record(found.interval),
            level=found.interval.level,
            cases=found.n,
            units=found.n_units,
            unknown=differences.unknown(found),
            reason=found.interval.reason or None,
        )
        for name, found in differences.estimates().items()
    }


def regression_tests(verdict: Verdict) -> list[RegressionRecord]:
    """The tests of the tagged cases that fell, the clearest first."""
    return [
        RegressionRecord(
            case_id=check.case_id,
            baseline_passed=check.baseline_passed,
            baseline_scored=check.baseline_scored,
            candidate_passed=check.candidate_passed,
            candidate_scored=check.candidate_scored,
            p=check.p,
            p_holm=check.p_holm,
            evidence=check.broken,
            trials_needed=check.trials_needed,
        )
        for check in verdict.regressions
        if check.flipped
    ]


def held_out(comparison: Comparison | None) -> dict[str, Any] | None:
    """The cases that took no part in the decision."""
    if comparison is None:
        return None
    interval = rate_record(comparison.interval)
    return {
        "cases": comparison.n_cases,
        "unmatched": comparison.unmatched,
        "difference": comparison.difference,
        "interval": interval.to_dict() if interval is not None else None,
        "level": comparison.interval.level,
        "flipsUp": list(comparison.cases_up),
        "flipsDown": list(comparison.cases_down),
    }


def _families(families: Sequence[str | None]) -> Sequence[str | None] | None:
    return families if any(families) else None
