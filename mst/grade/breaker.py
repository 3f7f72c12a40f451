"""When a judge is not asked any more: its key, its money, its rate or its connection is gone, whatever the case."""

from __future__ import annotations

from collections import Counter

from mst.errors import GradingFault
from mst.grade.contract import Grader

STOP_AFTER = 5
"""Faults of one terminal kind without a verdict in between that stop a judge."""
TERMINAL: frozenset[GradingFault] = frozenset({"auth", "quota", "rate_limit", "transport"})
"""Faults that say nothing about the case: the next one would meet them too."""


class Breaker:
    """Counts terminal faults by judge. One for each grading process; a new grading or a resume starts afresh."""

    def __init__(self, stop_after: int = STOP_AFTER) -> None:
        self._stop_after = stop_after
        self._faults: dict[tuple[str, str], Counter[GradingFault]] = {}
        self._stopped: dict[tuple[str, str], str] = {}

    def answered(self, grader: Grader) -> None:
        """The judge gave a verdict: what went wrong before has passed."""
        self._faults.pop(_key(grader), None)

    def failed(self, grader: Grader, kind: GradingFault, message: str) -> None:
        """The judge gave no verdict."""
        key = _key(grader)
        if kind not in TERMINAL or key in self._stopped:
            return
        counts = self._faults.setdefault(key, Counter())
        counts[kind] += 1
        if counts[kind] >= self._stop_after:
            self._stopped[key] = (
                f"Not asked: stopped after {counts[kind]} answers that ended the same way, with no verdict in between "
                f"({kind}: {message}). Mend it, then ask again with --resume"
            )

    def stopped(self, grader: Grader) -> str | None:
        """Why the judge is not asked any more; None while it is."""
        return self._stopped.get(_key(grader))


def _key(grader: Grader) -> tuple[str, str]:
    return (grader.role, grader.identity)
