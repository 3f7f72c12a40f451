"""What a report needs of a run, and how a trial's outcome is called."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal, Protocol

from mst.model.keys import TrialKey
from mst.model.results import CaseResult, TrialResult
from mst.model.run import RunRecord
from mst.model.score import PreferenceRecord
from mst.model.summary import SummaryRecord
from mst.model.trial import TrialRecord


class RunView(Protocol):
    """A stored run, opened for reading. Nothing here may need more memory than one document."""

    def run(self) -> RunRecord:
        """`run.json`."""
        ...

    def summary(self) -> SummaryRecord:
        """`summary.json`."""
        ...

    def case_results(self) -> Iterable[CaseResult]:
        """The lines of `results.json`, read one at a time, in their order."""
        ...

    def trial(self, key: TrialKey) -> TrialRecord | None:
        """A trial's record - a regrade's comes from its source run - or None when there is none."""
        ...

    def preferences(self) -> Iterable[PreferenceRecord]:
        """What pairwise judges found, read one at a time, in any order."""
        ...


OutcomeWord = Literal["passed", "failed", "infrastructure", "missing", "grading error", "ungraded", "incomplete"]


def trial_results(case: CaseResult) -> list[TrialResult]:
    """A case's trials in order, as many as it asked for: what is not there is `missing`.

    A case of one trial may be stored without a list; its own fields then are the trial's.
    """
    stored = case.trial_results
    if stored is None:
        stored = [_only_trial(case)]
    by_number = {trial.trial: trial for trial in stored}
    numbers = sorted({*range(case.request.trials), *by_number})
    return [by_number.get(number) or _absent(number) for number in numbers]


def outcome(trial: TrialResult) -> OutcomeWord:
    """What became of a trial, in one word. A broken machine comes before a grader's trouble, and both before a pass."""
    if trial.failure_kind == "missing":
        return "missing"
    if trial.is_infrastructure_error:
        return "infrastructure"
    if trial.grading_error is not None:
        return "grading error"
    if trial.passed is None:
        return "incomplete" if trial.error is not None and not trial.ungraded else "ungraded"
    return "passed" if trial.passed else "failed"


def _only_trial(case: CaseResult) -> TrialResult:
    return TrialResult(
        trial=0,
        passed=case.passed,
        scores=case.scores,
        duration_ms=case.duration_ms,
        error=case.error,
        grading_error=case.grading_error,
        is_infrastructure_error=bool(case.infrastructure_error_count),
        client_usage=case.client_usage,
        judge_usage=case.judge_usage,
        transcript_evidence=case.transcript_evidence,
    )


def _absent(number: int) -> TrialResult:
    return TrialResult(trial=number, passed=None, scores={}, duration_ms=0, failure_kind="missing")
