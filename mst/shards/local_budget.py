"""A budget kept in the coordinator's own process, for the `local` runner. What the run spent before counts too."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence

from mst.model.case import Case, EvalPlan
from mst.model.score import ComparisonGrading, TrialGrading
from mst.model.shard import UnitKey, unit_name
from mst.process.stop import Stop
from mst.runs.attempts import kept_attempts
from mst.runs.folder import RunFolder
from mst.runs.grading import Told
from mst.shards.spend import Budget, LocalSpend, grading_spent, trial_spent

HERE = "here"
BEFORE = "before"
Spent = tuple[str, int, float]
"""Unit name, tokens, USD."""


class BudgetStop(Stop):
    """Stops a walk when it is cancelled, or when the budget has no room for another unit.

    Args:
        budget: the plan's; None keeps nothing.
        cancel: the user's.
        said: called once with why, when the budget is used up.
        before: what the run has spent already; not read without a budget.
    """

    def __init__(
        self, budget: Budget | None, cancel: Stop, said: Callable[[str], None], before: Iterable[Spent] = ()
    ) -> None:
        self._budget = budget
        self._cancel = cancel
        self._said = said
        self._spend = LocalSpend()
        if budget is not None:
            note(before, self._spend)
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


def note(before: Iterable[Spent], spend: LocalSpend) -> None:
    """Put down what was spent before."""
    for unit, tokens, cost_usd in before:
        spend.settle(unit, BEFORE, tokens=tokens, cost_usd=cost_usd)


def spent_collecting(
    folder: RunFolder, variants: Sequence[str], cases: Iterable[Case], plan: EvalPlan
) -> Iterator[Spent]:
    """What the trials of a run used so far, all attempts at them included."""
    for case in cases:
        for key in plan.trial_keys(case, variants):
            record = folder.trial(key)
            if record is not None:
                yield unit_name(key), *trial_spent([*kept_attempts(folder, key), record])


def both(first: Told, second: Told) -> Told:
    """One after the other."""

    async def call(grading: TrialGrading | ComparisonGrading) -> None:
        await first(grading)
        await second(grading)

    return call
