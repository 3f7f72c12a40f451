"""A budget kept in the coordinator's own process, for the `local` runner."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from mst.model.score import ComparisonGrading, TrialGrading
from mst.model.shard import UnitKey, unit_name
from mst.process.stop import Stop
from mst.shards.spend import Budget, LocalSpend, grading_spent

HERE = "here"


class BudgetStop(Stop):
    """Stops a walk when it is cancelled, or when the budget has no room for another unit.

    Args:
        budget: the plan's; None keeps nothing.
        cancel: the user's.
        said: called once with why, when the budget is used up.
    """

    def __init__(self, budget: Budget | None, cancel: Stop, said: Callable[[str], None]) -> None:
        self._budget = budget
        self._cancel = cancel
        self._said = said
        self._spend = LocalSpend()
        self._used_up = False

    def is_set(self) -> bool:
        """See `Stop.is_set`."""
        return self._used_up or self._cancel.is_set()

    async def starting(self, key: UnitKey) -> None:
        """Before a unit: set its estimate aside, or stop."""
        if self._budget is None or self._used_up:
            return
        why = self._spend.reserve(unit_name(key), HERE, self._budget)
        if why is not None:
            self._used_up = True
            self._said(why)

    async def told(self, grading: TrialGrading | ComparisonGrading) -> None:
        """After a unit."""
        self.settle(grading.key, *grading_spent(grading))

    def settle(self, key: UnitKey, tokens: int, cost_usd: float) -> None:
        """Note what a unit used."""
        if self._budget is not None:
            self._spend.settle(unit_name(key), HERE, tokens=tokens, cost_usd=cost_usd)


def both(
    first: Callable[..., Awaitable[None]], second: Callable[..., Awaitable[None]] | None
) -> Callable[..., Awaitable[None]]:
    """One after the other."""

    async def call(what: object) -> None:
        await first(what)
        if second is not None:
            await second(what)

    return call
