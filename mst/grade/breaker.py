"""When a judge is not asked any more: its key, its money, its rate or its connection is gone, whatever the case."""

from __future__ import annotations

from collections import Counter
from collections.abc import Awaitable, Callable

from mst.errors import GradingFault
from mst.grade.contract import Grader

STOP_AFTER = 5
"""Faults of one terminal kind without a verdict in between that stop a judge."""
TERMINAL: frozenset[GradingFault] = frozenset({"auth", "quota", "rate_limit", "transport"})
"""Faults that say nothing about the case: the next one would meet them too."""


async def _untold(_judge: str, _kind: GradingFault, _message: str) -> None:
    return


class Breaker:
    """Counts terminal faults by judge. One for each grading process; a new grading or a resume starts afresh.

    Args:
        stop_after: faults of one kind in a row.
        failed: told each terminal fault: judge, kind, message. The message is as the judge said it. Returns once
            whoever counts faults elsewhere has counted it, and has stopped the judge here if that came of it.
        answered: told each verdict's judge.
    """

    def __init__(
        self,
        stop_after: int = STOP_AFTER,
        *,
        failed: Callable[[str, GradingFault, str], Awaitable[None]] = _untold,
        answered: Callable[[str], None] = lambda _judge: None,
    ) -> None:
        self._stop_after = stop_after
        self._tell_failed = failed
        self._tell_answered = answered
        self._faults: dict[str, Counter[GradingFault]] = {}
        self._stopped: dict[str, str] = {}

    def answered(self, grader: Grader) -> None:
        """The judge gave a verdict: what went wrong before has passed."""
        self._faults.pop(_key(grader), None)
        self._tell_answered(_key(grader))

    async def failed(self, grader: Grader, kind: GradingFault, message: str) -> None:
        """The judge gave no verdict. Returns when it is known whether it may be asked again."""
        key = _key(grader)
        if kind not in TERMINAL or key in self._stopped:
            return
        counts = self._faults.setdefault(key, Counter())
        counts[kind] += 1
        if counts[kind] >= self._stop_after:
            self._stopped[key] = why_stopped(counts[kind], kind, message)
        await self._tell_failed(key, kind, message)

    def stop(self, judge: str, reason: str) -> None:
        """Somebody else found that the judge cannot be asked."""
        self._stopped.setdefault(judge, reason)

    def stopped(self, grader: Grader) -> str | None:
        """Why the judge is not asked any more; None while it is."""
        return self._stopped.get(_key(grader))


def why_stopped(count: int, kind: GradingFault, message: str) -> str:
    """The grading error of what is not asked."""
    return (
        f"Not asked: stopped after {count} answers that ended the same way, with no verdict in between "
        f"({kind}: {message}). Mend it, then ask again with --resume"
    )


def _key(grader: Grader) -> str:
    return f"{grader.role}:{grader.identity}"
