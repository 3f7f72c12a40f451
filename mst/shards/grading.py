"""Grading in a shard: the ordinary walk, with each unit written to a file and announced."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import aclosing

from mst.grade.contract import Grader, GradingSource, Pair
from mst.grade.live import Live
from mst.grade.names import judges_for
from mst.judges.contract import Subject
from mst.model.keys import ComparisonKey, TrialKey
from mst.model.score import ComparisonGrading, TrialGrading
from mst.model.shard import Graded, Started, Unit, UnitKey, UsageReport, unit_name
from mst.runs.grading import GradingWalk, not_compared, not_graded
from mst.shards.asking import AskedLimits
from mst.shards.job import Job
from mst.shards.poison import CRASHED_TWICE, read_poisoned
from mst.shards.spend import grading_spent, judge_calls
from mst.shards.units import UNITS, read_unit, unit_files


async def grade_units(job: Job) -> None:
    """Grade a bundle's trials and comparisons, `concurrency` units at a time.

    Units with a valid file in the results folder are kept as they are. Judges are preflighted before the first unit.

    Raises:
        GraderError: a preflight failed; nothing was graded.
    """
    bundle = job.bundle
    plan = bundle.record.plan
    earlier = bundle.earlier()
    live = Live(
        plan,
        files=bundle.files,
        secrets=job.secrets,
        scratch=job.scratch,
        redactor=job.redactor,
        earlier=earlier.get,
        limits=AskedLimits(job.asking),
        breaker=job.breaker,
    )
    kept = Kept(live, job)
    writer = job.unit_writer()
    judges = judges_for(plan, bundle.cases, bundle.variants)

    async def starting(key: UnitKey) -> None:
        if kept.starts(key):
            if await job.asking.may_start(key, is_free=not judges):
                job.send(Started(key=key))
            else:
                job.cancel.set()

    async def told(grading: TrialGrading | ComparisonGrading) -> None:
        if kept.answered(grading.key):
            return
        failed = bool(grading.errors)
        job.tally.failed += failed
        job.tally.graded += not failed
        passed = grading.passed if isinstance(grading, TrialGrading) else None
        tokens, cost_usd = grading_spent(grading)
        calls = judge_calls(grading)
        if tokens or cost_usd or calls:
            job.send_soon(UsageReport(key=grading.key, tokens=tokens, cost_usd=cost_usd, judge_calls=calls))
        path = writer.graded(grading)
        job.send_soon(Graded(key=grading.key, status="failed" if failed else "graded", path=path, passed=passed))

    walk = GradingWalk(
        plan=plan,
        trials=bundle,
        source=kept,
        variants=bundle.variants,
        cancel=job.cancel,
        starting=starting,
        told=told,
    )
    async with aclosing(live):
        await live.preflight(judges)
        planned = 0
        async with aclosing(walk.cases(bundle.cases)) as graded_cases:
            async for graded in graded_cases:
                planned += sum(trial.grading is not None for trial in graded.trials) + len(graded.comparisons)
        job.tally.cancelled += planned - job.tally.graded - job.tally.failed - kept.count


class Kept(GradingSource):
    """A source that answers from unit files of earlier attempts, and gives up on units that crashed two of them."""

    def __init__(self, source: GradingSource, job: Job) -> None:
        self._source = source
        self._job = job
        self._poisoned = read_poisoned(job.results)
        self._there = unit_files(job.results)
        self._answered: set[UnitKey] = set()
        self.count = 0
        """Units that were answered from their files."""

    def starts(self, key: UnitKey) -> bool:
        """Whether this unit will be worked on: it has no file, and has not been given up."""
        return unit_name(key) not in self._poisoned and self._unit(key) is None

    def answered(self, key: UnitKey) -> bool:
        """Whether the answer just given was a file's. Asked once for each unit."""
        found = key in self._answered
        self._answered.discard(key)
        return found

    def _unit(self, key: UnitKey) -> Unit | None:
        name = unit_name(key)
        return read_unit(self._job.results / UNITS / name, key, self._job.digest) if name in self._there else None

    def _keep(self, key: UnitKey) -> None:
        self._answered.add(key)
        self.count += 1

    async def trial(self, key: TrialKey, subject: Subject, graders: Sequence[Grader]) -> TrialGrading:
        """See `GradingSource.trial`."""
        unit = self._unit(key)
        if unit is not None and unit.trial_grading is not None:
            self._keep(key)
            return unit.trial_grading
        if unit_name(key) in self._poisoned:
            return not_graded(key, subject, graders, CRASHED_TWICE)
        return await self._source.trial(key, subject, graders)

    async def comparison(self, key: ComparisonKey, pair: Pair, judges: Sequence[Grader]) -> ComparisonGrading:
        """See `GradingSource.comparison`."""
        unit = self._unit(key)
        if unit is not None and unit.comparison_grading is not None:
            self._keep(key)
            return unit.comparison_grading
        if unit_name(key) in self._poisoned:
            return not_compared(key, pair, judges, CRASHED_TWICE)
        return await self._source.comparison(key, pair, judges)
