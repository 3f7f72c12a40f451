"""A decision as it is stored and shown. Pure."""

from __future__ import annotations

from collections.abc import Mapping

from mst.model.numbers import MetricDifference
from mst.model.summary import VerdictRecord
from mst.runs.numbers import enough, held_out, rate_record, regression_tests
from mst.stats.decision import Verdict
from mst.stats.regression import RegressionCheck


def verdict_record(
    verdict: Verdict,
    *,
    baseline: str,
    candidate: str | None = None,
    metric_differences: Mapping[str, MetricDifference] | None = None,
) -> VerdictRecord:
    """The record of a decision.

    Args:
        verdict: as `mst.stats.decision` gives it.
        baseline: what the candidate was compared with, as it is called.
        candidate: what the candidate is called, when that is not its variant's name.
        metric_differences: of the candidate.
    """
    comparison = verdict.comparison
    return VerdictRecord(
        candidate=verdict.variant if candidate is None else candidate,
        baseline=baseline,
        verdict=verdict.word,
        reason=verdict.reason or None,
        test=comparison.test,
        approximate=comparison.approximate,
        p_better=comparison.p_better,
        p_better_holm=verdict.p_better_holm,
        p_worse=comparison.p_worse,
        level=comparison.interval.level,
        difference=comparison.difference,
        interval=rate_record(comparison.interval),
        cases_compared=comparison.n_cases,
        cases_unmatched=comparison.unmatched,
        errored=comparison.baseline.errored + comparison.candidate.errored,
        missing=comparison.baseline.missing + comparison.candidate.missing,
        flips_up=list(comparison.cases_up),
        flips_down=list(comparison.cases_down),
        regressions=[check.case_id for check in verdict.regressions if check.flipped],
        regressions_shown=[check.case_id for check in verdict.regressions if check.broken],
        regression_tests=regression_tests(verdict),
        held_out=held_out(verdict.held_out),
        enough=enough(verdict),
        metric_differences=dict(metric_differences or {}),
        notes=_notes(verdict),
    )


def _notes(verdict: Verdict) -> list[str]:
    notes = [
        _too_few_trials(check, check.trials_needed)
        for check in verdict.regressions
        if check.flipped and not check.broken and check.trials_needed is not None
    ]
    if verdict.n_candidates > 1 and verdict.word == "worse":
        notes.append(f"'worse' is not corrected: its family error is up to {verdict.n_candidates} x 2.5%")
    if verdict.comparison.one_trial:
        notes.append("all trials of a case agree: more trials add nothing, more cases would")
    if verdict.comparison.approximate:
        notes.append("p is approximate")
    return notes


def _too_few_trials(check: RegressionCheck, needed: int) -> str:
    trials = min(check.baseline_scored, check.candidate_scored)
    fell = "fell in its one trial" if trials == 1 else f"fell at {trials} trials"
    return f"{check.case_id}: {fell}, which may be chance; needs {needed} trials to be evidence by itself"
