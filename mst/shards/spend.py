"""What a run may spend, and has spent: by unit and attempt, so that nothing is counted twice."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from mst.model.base import digest
from mst.model.score import ComparisonGrading, TrialGrading
from mst.model.shard import UnitKey, UsageReport
from mst.model.transcript import Usage
from mst.model.trial import TrialRecord


@dataclass(frozen=True)
class Budget:
    """Bounds of a whole run. None: no bound of that kind."""

    cost_usd: float | None = None
    tokens: int | None = None

    @classmethod
    def of(cls, written: Mapping[str, Any]) -> Budget | None:
        """The budget of a plan; None when it has none."""
        budget = cls(cost_usd=written.get("cost_usd"), tokens=written.get("tokens"))
        return budget if budget != cls() else None

    def why_not(self, *, tokens: float, cost_usd: float) -> str | None:
        """Why nothing more may start once so much is spent or reserved; None while there is room. Pure."""
        if self.cost_usd is not None and cost_usd >= self.cost_usd:
            return f"the budget is used up: {cost_usd:.4g} of {self.cost_usd:g} USD are spent or in use"
        if self.tokens is not None and tokens >= self.tokens:
            return f"the budget is used up: {tokens:.0f} of {self.tokens} tokens are spent or in use"
        return None


class SpendLedger(Protocol):
    """A run's spending. Both methods may be repeated. Raise `BrokerError` when it cannot be reached."""

    def reserve(self, unit: str, attempt: str, budget: Budget) -> str | None:
        """Before a unit starts: set its estimate (the mean of those that ended) aside.

        Returns:
            Why it may not start; None when it may.
        """
        ...

    def settle(self, unit: str, attempt: str, *, tokens: float, cost_usd: float) -> None:
        """After a unit: what it really used takes the place of what was set aside. Lost attempts keep theirs."""
        ...


class LocalSpend:
    """The spending of a run whose shards are all of this process. See `SpendLedger`."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._entries: dict[tuple[str, str], tuple[float, float]] = {}
        self._settled: set[tuple[str, str]] = set()

    def reserve(self, unit: str, attempt: str, budget: Budget) -> str | None:
        """See `SpendLedger.reserve`."""
        with self._lock:
            if (unit, attempt) in self._entries:
                return None
            tokens, cost = self._mean()
            spent = self._sum()
            why = budget.why_not(tokens=spent[0], cost_usd=spent[1])
            if why is None:
                self._entries[unit, attempt] = (tokens, cost)
            return why

    def settle(self, unit: str, attempt: str, *, tokens: float, cost_usd: float) -> None:
        """See `SpendLedger.settle`."""
        with self._lock:
            self._entries[unit, attempt] = (tokens, cost_usd)
            self._settled.add((unit, attempt))

    def _sum(self) -> tuple[float, float]:
        values = self._entries.values()
        return sum(tokens for tokens, _ in values), sum(cost for _, cost in values)

    def _mean(self) -> tuple[float, float]:
        if not self._settled:
            return 0.0, 0.0
        tokens, cost = zip(*(self._entries[key] for key in self._settled), strict=True)
        return sum(tokens) / len(tokens), sum(cost) / len(cost)


def spend_unit(key: UnitKey) -> str:
    """What a unit's entries are named by."""
    return digest(key.to_dict())[:24]


class Bill:
    """Adds up what units of several shards say that they cost, and tells the sum. Thread-safe.

    Args:
        tell: called with the sum in USD whenever it grew.
    """

    def __init__(self, tell: Callable[[float], None]) -> None:
        self._tell = tell
        self._usd = 0.0
        self._lock = threading.Lock()

    def add(self, report: UsageReport) -> None:
        """One more unit's."""
        if not report.cost_usd:
            return
        with self._lock:
            self._usd += report.cost_usd
            usd = self._usd
        self._tell(usd)


def spent(usages: Iterable[Usage | None]) -> tuple[int, float]:
    """Tokens in and out and USD of some calls, as far as they are known."""
    tokens, cost = 0, 0.0
    for usage in usages:
        if usage is not None:
            tokens += usage.known_tokens
            cost += usage.cost_usd or 0.0
    return tokens, cost


def trial_spent(attempts: Iterable[TrialRecord]) -> tuple[int, float]:
    """What a trial's program used, in all attempts at it."""
    return spent(one.client_usage or (one.transcript.usage if one.transcript is not None else None) for one in attempts)


def judge_calls(grading: TrialGrading | ComparisonGrading) -> int:
    """How often judges were asked for one unit, repetitions and orders counted."""
    if isinstance(grading, TrialGrading):
        asked = [score for score in grading.scores.values() if score.judge_duration_ms is not None]
        return sum(len(score.scores or ()) or 1 for score in asked)
    return sum(len(one.pairs or ()) or 1 for one in grading.preferences.values() if one.judge_duration_ms is not None)


def grading_spent(grading: TrialGrading | ComparisonGrading) -> tuple[int, float]:
    """What the graders of one unit used."""
    found = grading.scores if isinstance(grading, TrialGrading) else grading.preferences
    return spent(one.usage for one in found.values())
