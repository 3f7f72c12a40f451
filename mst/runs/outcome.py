"""What became of a planned trial: scored, ungraded, errored or missing. Only scored trials enter pass rates."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from mst.model.score import TrialGrading
from mst.model.trial import TrialRecord


class Fate(StrEnum):
    """The four things that can become of a planned trial."""

    SCORED = "scored"
    UNGRADED = "ungraded"
    ERRORED = "errored"
    MISSING = "missing"


@dataclass(frozen=True, slots=True)
class Outcome:
    """A trial's fate; `passed` is None unless it was scored."""

    fate: Fate
    passed: bool | None = None


def outcome_of(record: TrialRecord | None, grading: TrialGrading | None) -> Outcome:
    """Decide a trial's fate.

    A broken machine or a grader without a verdict is errored, whatever the other graders said. A program that failed
    by its own fault (`error_kind: agent`) is a failed answer. No finding that counts: ungraded.
    """
    if record is None or record.failure_kind == "missing":
        return Outcome(Fate.MISSING)
    if not record.is_scorable or grading is None or grading.errors:
        return Outcome(Fate.ERRORED)
    if record.error_kind == "agent":
        return Outcome(Fate.SCORED, passed=False)
    if grading.passed is None:
        return Outcome(Fate.UNGRADED)
    return Outcome(Fate.SCORED, passed=grading.passed)
