"""The one grading path: every trial of every case, then each case's comparisons, verdicts from a grading source.

A regrade, a fresh run and a shard worker all walk the same way; they differ in where trials lie, where verdicts come
from, and who is told.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncGenerator, Awaitable, Callable, Coroutine, Iterable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Protocol

from mst.grade.comparing import pair_digests
from mst.grade.contract import Grader, GradingSource, Pair
from mst.grade.names import graders_for, pairwise_for
from mst.judges.contract import Subject
from mst.model.case import Case, EvalPlan
from mst.model.keys import ComparisonKey, TrialKey
from mst.model.score import ComparisonGrading, GraderScore, Preference, TrialGrading
from mst.process.stop import Stop
from mst.process.together import together
from mst.runs.outcome import Outcome, outcome_of


class Trials(Protocol):
    """Where collected trials lie: a run folder or a bundle."""

    def subject(self, case: Case, key: TrialKey) -> Subject | None:
        """A trial as graders see it, or None when it was not collected."""
        ...


@dataclass(frozen=True, kw_only=True)
class GradedTrial:
    """A trial with what grading found. No subject: it was never collected. No grading: there was nothing to grade."""

    key: TrialKey
    subject: Subject | None
    grading: TrialGrading | None

    @cached_property
    def outcome(self) -> Outcome:
        """What became of it. Kept, since results and every total ask."""
        return outcome_of(None if self.subject is None else self.subject.record, self.grading)


@dataclass(frozen=True, kw_only=True)
class GradedCase:
    """One case with all its trials, in the order of variants and trial numbers, and its comparisons."""

    case: Case
    trials: Sequence[GradedTrial]
    comparisons: Sequence[ComparisonGrading]


class NotAsked(GradingSource):
    """Asks nobody: a grading error from each grader, saying why."""

    def __init__(self, reason: str) -> None:
        self._reason = reason

    async def trial(self, key: TrialKey, subject: Subject, graders: Sequence[Grader]) -> TrialGrading:
        """See `not_graded`."""
        return not_graded(key, subject, graders, self._reason)

    async def comparison(self, key: ComparisonKey, pair: Pair, judges: Sequence[Grader]) -> ComparisonGrading:
        """See `not_compared`."""
        return not_compared(key, pair, judges, self._reason)


Told = Callable[[TrialGrading | ComparisonGrading], Awaitable[None]]
Starting = Callable[[TrialKey | ComparisonKey], Awaitable[None]]


@dataclass(frozen=True, kw_only=True)
class GradingWalk:
    """Settings of one walk over a run's cases.

    Attributes:
        variants: names of the variants to grade, in the plan's order.
        cancel: when set, no further unit starts; what did not start is answered by `unasked`.
        starting, told: called before a unit starts and after it ends, with its outcome. A unit does not start when
            `cancel` is set meanwhile.
        unasked: grading errors that say so, unless a verdict of before is to be kept.
    """

    plan: EvalPlan
    trials: Trials
    source: GradingSource
    variants: Sequence[str]
    cancel: Stop
    starting: Starting | None = None
    told: Told | None = None
    unasked: GradingSource = field(default_factory=lambda: NotAsked("cancelled"))

    async def cases(self, cases: Iterable[Case]) -> AsyncGenerator[GradedCase]:
        """Grade cases, `plan.concurrency` units at a time, and yield them in the order given.

        Memory: at most twice the concurrency of cases are held at once. Whoever stops in the middle closes it, which
        ends the units in flight: a loop that is torn down around a starting program waits for it for ever.
        """
        room = asyncio.Semaphore(self.plan.concurrency)
        window: deque[asyncio.Task[GradedCase]] = deque()
        try:
            for case in cases:
                window.append(asyncio.create_task(self._case(case, room)))
                if len(window) >= 2 * self.plan.concurrency:
                    yield await window.popleft()
            while window:
                yield await window.popleft()
        finally:
            for task in window:
                task.cancel()
            await asyncio.gather(*window, return_exceptions=True)

    async def _case(self, case: Case, room: asyncio.Semaphore) -> GradedCase:
        keys = self.plan.trial_keys(case, self.variants)
        graders = {name: graders_for(self.plan, self.plan.variant(name), case) for name in self.variants}
        trials = await together(self._trial(case, key, graders[key.variant], room) for key in keys)
        comparisons = await together(self._comparisons(case, trials, room))
        return GradedCase(case=case, trials=trials, comparisons=comparisons)

    async def _trial(
        self, case: Case, key: TrialKey, graders: Sequence[Grader], room: asyncio.Semaphore
    ) -> GradedTrial:
        async with room:
            subject = self.trials.subject(case, key)
            if subject is None or not subject.record.is_scorable:
                return GradedTrial(key=key, subject=subject, grading=None)
            if self.cancel.is_set():
                grading = await self.unasked.trial(key, subject, graders)
                return GradedTrial(key=key, subject=subject, grading=grading)
            if self.starting is not None:
                await self.starting(key)
                if self.cancel.is_set():
                    grading = await self.unasked.trial(key, subject, graders)
                    return GradedTrial(key=key, subject=subject, grading=grading)
            grading = await self.source.trial(key, subject, graders)
            if self.told is not None:
                await self.told(grading)
            return GradedTrial(key=key, subject=subject, grading=grading)

    def _comparisons(
        self, case: Case, trials: Sequence[GradedTrial], room: asyncio.Semaphore
    ) -> list[Coroutine[Any, Any, ComparisonGrading]]:
        judges = pairwise_for(self.plan)
        if not judges:
            return []
        pairs = pairs_of(self.plan, case, trials, self.variants)
        return [self._comparison(key, pair, judges, room) for key, pair in pairs]

    async def _comparison(
        self, key: ComparisonKey, pair: Pair, judges: Sequence[Grader], room: asyncio.Semaphore
    ) -> ComparisonGrading:
        async with room:
            if self.cancel.is_set():
                return await self.unasked.comparison(key, pair, judges)
            if self.starting is not None:
                await self.starting(key)
                if self.cancel.is_set():
                    return await self.unasked.comparison(key, pair, judges)
            grading = await self.source.comparison(key, pair, judges)
            if self.told is not None:
                await self.told(grading)
            return grading


def pairs_of(
    plan: EvalPlan, case: Case, trials: Sequence[GradedTrial], variants: Sequence[str]
) -> list[tuple[ComparisonKey, Pair]]:
    """The comparisons of one case that have both sides, in the order of the plan's candidates."""
    sides = {name: comparable(trials, name) for name in variants}
    baseline = sides.get(plan.baseline)
    if not baseline:
        return []
    return [
        (
            ComparisonKey(candidate=name, case_id=case.id),
            Pair(case=case, candidate=name, baseline_trials=baseline, candidate_trials=sides[name]),
        )
        for name in plan.candidates
        if sides.get(name)
    ]


def comparable(trials: Sequence[GradedTrial], variant: str) -> list[Subject]:
    """The trials of one side that may be compared: collected, no infrastructure failure, no failed client.

    A failed answer is compared, and so is a trial that only has a grading error. Each carries what its grading said.
    """
    return [
        Subject(
            case=trial.subject.case,
            record=trial.subject.record,
            digest=trial.subject.digest,
            artifacts=trial.subject.artifacts,
            passed=None if trial.grading is None else trial.grading.passed,
        )
        for trial in trials
        if trial.key.variant == variant and trial.subject is not None and trial.subject.record.is_scorable
    ]


def not_graded(key: TrialKey, subject: Subject, graders: Sequence[Grader], reason: str) -> TrialGrading:
    """A trial that no grader was asked about: a grading error from each, saying why."""
    message = f"Not graded: {reason}"
    return TrialGrading(
        key=key,
        trial_digest=subject.digest,
        scores={grader.name: GraderScore(passed=False, error=message) for grader in graders},
        identities={grader.name: grader.identity for grader in graders},
    )


def not_compared(key: ComparisonKey, pair: Pair, judges: Sequence[Grader], reason: str) -> ComparisonGrading:
    """A comparison that no judge was asked about: a grading error from each, saying why."""
    message = f"Not compared: {reason}"
    return ComparisonGrading(
        key=key,
        trial_digests=pair_digests(pair),
        preferences={judge.name: Preference(judge=judge.name, error=message) for judge in judges},
        identities={judge.name: judge.identity for judge in judges},
    )
