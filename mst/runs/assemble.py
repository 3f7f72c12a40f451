"""From verdicts to a finished run folder. Every grading ends here, wherever its verdicts came from.

Write order: scores and preferences unit by unit, `results.json`, `summary.json`, `run.json`. A process that dies in
between leaves a run whose `run.json` still says partial, and whose verdicts a resume finds.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import aclosing
from dataclasses import replace

from mst.model.case import Case, EvalPlan
from mst.model.keys import TrialKey
from mst.model.results import CaseResult
from mst.model.run import Phases, RunRecord
from mst.model.score import ComparisonGrading, PreferenceRecord, ScoreRecord, TrialGrading
from mst.model.shard import UnitKey
from mst.model.summary import SummaryRecord
from mst.runs.earlier import preference_record, score_record
from mst.runs.folder import RunFolder
from mst.runs.grading import GradedCase, GradingWalk
from mst.runs.previous import change_since, previous_run
from mst.runs.record import now_iso
from mst.runs.results import ResultsWriter, case_result
from mst.runs.summary import summarize
from mst.runs.totals import Totals

TOGETHER = 64
"""Verdicts that are written at once: so many files are open then, and so many are read again after a crash."""


async def assemble(
    folder: RunFolder,
    run: RunRecord,
    walk: GradingWalk,
    cases: Iterable[Case],
    *,
    on_case: Callable[[GradedCase], None] | None = None,
    kept_elsewhere: bool = False,
) -> SummaryRecord:
    """Grade every case of a run and write the folder.

    Args:
        folder: where to write; the caller holds its lock.
        run: its record so far; phases and finish time are set here.
        walk: over its trials. A unit is on disk before the walk's `told` hears of it. When its `cancel` stops units,
            the run is left partial.
        cases: in the run's order.
        on_case: called after each case's files are written.
        kept_elsewhere: the verdicts are durable as the units that shards brought. Then this folder is only another
            place for them, and many are written with one wait for the disk; `told` and `on_case` may come before.

    Returns:
        The summary, as written.
    """
    started = time.monotonic()
    totals = Totals(walk.plan, walk.variants)
    verdicts = _Verdicts(folder, walk.plan.baseline, together=TOGETHER if kept_elsewhere else 1)

    async def keep(found: TrialGrading | ComparisonGrading) -> None:
        verdicts.write(found)
        if walk.told is not None:
            await walk.told(found)

    async with aclosing(replace(walk, told=keep).cases(cases)) as graded_cases:
        with ResultsWriter(folder.path / "results.json", run.run_id) as results:
            async for graded in graded_cases:
                verdicts.write_rest(graded)
                found = case_results(walk.plan, graded, walk.variants, stopped=run.stopped)
                for result in found:
                    results.write(result)
                totals.add(graded, found)
                if on_case is not None:
                    on_case(graded)
    verdicts.flush()
    return _finish(folder, run, totals, (time.monotonic() - started) * 1000)


def _finish(folder: RunFolder, run: RunRecord, totals: Totals, duration_ms: float) -> SummaryRecord:
    phases = Phases(
        collect="partial" if totals.has_collect_gaps else "complete",
        grade="partial" if totals.has_grading_gaps else "complete",
    )
    finished = run.model_copy(update={"phases": phases, "finished_at": now_iso()})
    summary = summarize(finished, totals, phases, timestamp=now_iso(), duration_ms=duration_ms, previous=None)
    before = previous_run(folder, finished)
    if before is not None and before[1].selection_hash == summary.selection_hash:
        summary = summary.model_copy(update={"previous_run": change_since(folder, summary, *before)})
    folder.write_summary(summary)
    folder.write_run(finished)
    return summary


def case_results(
    plan: EvalPlan, graded: GradedCase, variants: Sequence[str], *, stopped: str | None = None
) -> list[CaseResult]:
    """One case's result for each variant, in the order given; the baseline's pass stands beside the others'."""
    found: dict[str, CaseResult] = {}
    baseline_first = sorted(variants, key=lambda name: name != plan.baseline)
    for name in baseline_first:
        trials = [trial for trial in graded.trials if trial.key.variant == name]
        baseline = found.get(plan.baseline)
        beside = baseline.passed if baseline is not None else None
        found[name] = case_result(plan, graded.case, plan.variant(name), trials, beside, stopped=stopped)
    return [found[name] for name in variants]


def _units_of(graded: GradedCase) -> list[TrialGrading | ComparisonGrading]:
    """What grading one case found, unit by unit."""
    return [*(trial.grading for trial in graded.trials if trial.grading is not None), *graded.comparisons]


class _Verdicts:
    """Writes units' scores and preferences into a folder, so many of them with one wait for the disk."""

    def __init__(self, folder: RunFolder, baseline: str, *, together: int) -> None:
        self._folder = folder
        self._baseline = baseline
        self._together = together
        self._waiting: list[ScoreRecord | PreferenceRecord] = []
        self._written: set[UnitKey] = set()

    def write(self, found: TrialGrading | ComparisonGrading) -> None:
        """Each file is there whole or not at all; the last units are there after `flush`."""
        self._written.add(found.key)
        run_id = self._folder.run_id
        if isinstance(found, TrialGrading):
            self._waiting += [score_record(run_id, found, grader) for grader in found.scores]
        else:
            self._waiting += [preference_record(run_id, self._baseline, found, judge) for judge in found.preferences]
        if len(self._waiting) >= self._together:
            self.flush()

    def write_rest(self, graded: GradedCase) -> None:
        """Write a case's units that nobody was asked about, and forget the case: memory stays flat."""
        for unit in _units_of(graded):
            if unit.key not in self._written:
                self.write(unit)
            self._written.discard(unit.key)

    def flush(self) -> None:
        """Write what waits."""
        waiting, self._waiting = self._waiting, []
        self._folder.write_verdicts(waiting)


def planned_trials(plan: EvalPlan, cases: Iterable[Case], variants: Sequence[str]) -> Iterable[TrialKey]:
    """Every trial of a run, case by case."""
    for case in cases:
        yield from plan.trial_keys(case, variants)
