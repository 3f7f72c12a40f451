"""What scores mean together: when a trial and a case pass, and whom a case prefers. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal

from mst.model.score import Side, TrialGrading, reaches

TrialOutcome = Literal["passed", "failed", "error", "deferred", "ungraded"]

POINTS: dict[Side, int] = {"candidate": 1, "baseline": -1, "tie": 0}


def trial_outcome(grading: TrialGrading) -> TrialOutcome:
    """A trial's outcome in one word, with the reason why it has no pass or fail."""
    if grading.errors:
        return "error"
    passed = grading.passed
    if passed is not None:
        return "passed" if passed else "failed"
    return "deferred" if any(score.deferred for score in grading.scores.values()) else "ungraded"


def case_passed(passes: int, scored: int, threshold: float) -> bool | None:
    """Whether the share of passed among a case's scored trials reaches its threshold; None without a scored trial."""
    if scored == 0:
        return None
    return reaches(passes / scored, threshold)


def case_preference(pairs: Iterable[Side]) -> Side:
    """The side that a case prefers: the sign of the sum over its pairs of +1 (candidate), 0 (tie), -1 (baseline)."""
    total = sum(POINTS[side] for side in pairs)
    if total == 0:
        return "tie"
    return "candidate" if total > 0 else "baseline"
