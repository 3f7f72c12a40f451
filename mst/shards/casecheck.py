"""Checking cases in shards: a stand-in is collected and graded as any variant, in a folder that is thrown away."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, closing
from dataclasses import dataclass, field
from pathlib import Path

from mst.config.cases import CaseFile
from mst.config.resolve import ResolvedEval
from mst.model.case import Case, EvalPlan
from mst.model.run import RunRecord
from mst.model.shard import Work
from mst.runs.casecheck import CaseCheck, Judging, StandIn, stand_in_plan, telling
from mst.runs.folder import RunFolder
from mst.runs.grading import GradedCase
from mst.runs.inputs import GradeInputs, write_inputs
from mst.runs.record import environment, new_record
from mst.shards.collect_run import CollectRequest, collect_in_shards
from mst.shards.contract import Cancel, Runner, RunnerContext, ShardEvents
from mst.shards.regrade import grade_collected
from mst.shards.request import GradeRequest
from mst.shards.under_way import GradingContext

Watching = Callable[[Work], AbstractContextManager[ShardEvents]]
OpenRunner = Callable[[RunnerContext, Work], Runner]


@dataclass(frozen=True, kw_only=True)
class Shards:
    """Where the checking runs.

    Attributes:
        name: of the runner.
        open: makes it for one kind of work.
        secrets: values that graders may get, by name.
    """

    name: str
    count: int
    open: OpenRunner
    context: Callable[[RunFolder, Work], RunnerContext]
    secrets: Mapping[str, str] = field(default_factory=dict, repr=False)
    secret_names: Sequence[str] = ()


def check_cases_in_shards(
    resolved: ResolvedEval, stand_in: StandIn, shards: Shards, *, folder: RunFolder, events: Watching, cancel: Cancel
) -> list[CaseCheck]:
    """The same as `check_cases`, with the stand-in's trials made and graded in shards.

    Args:
        resolved: the eval.
        stand_in: who answers.
        shards: where.
        folder: an empty run folder; the caller deletes it.
        events: makes whom to tell how each kind of work goes.
        cancel: stops it; cases that were not checked are not in the result.
    """
    plan = stand_in_plan(resolved.plan, stand_in)
    plan = plan.model_copy(update={"assertions": telling(plan.assertions, stand_in)})
    cases = CaseFile.write(folder.path / "stand-in.jsonl", _asked(resolved.cases, stand_in))
    run = _record(folder, resolved, plan, cases, shards)
    inputs = GradeInputs(plan=plan, cases=cases, datasets=resolved.datasets, files=resolved.files)
    write_inputs(folder, inputs)
    folder.write_run(run)
    request = CollectRequest(folder=folder, run=run, plan=plan, cases=cases, files=resolved.files, variants=[stand_in])
    with events("collect") as told_of, closing(shards.open(shards.context(folder, "collect"), "collect")) as runner:
        outcomes = collect_in_shards(request, runner, shards.count, told_of, cancel)
    found: dict[str, CaseCheck] = {}
    judging = Judging(resolved.plan, stand_in_plan(resolved.plan, stand_in), stand_in)

    def told(graded: GradedCase) -> None:
        [trial] = graded.trials
        if trial.subject is None or (cancel.is_set() and (trial.grading is None or trial.grading.errors)):
            return
        case = resolved.cases.get(graded.case.id)
        found[case.id] = judging.check(case, trial.subject.record, trial.grading)

    grading = GradeRequest(
        source=folder,
        inputs=inputs,
        runner_name=shards.name,
        shards=shards.count,
        secrets=shards.secrets,
        secret_names=shards.secret_names,
        variants=[stand_in],
    )
    with events("grade") as told_of, closing(shards.open(shards.context(folder, "grade"), "grade")) as runner:
        context = GradingContext(runner=runner, events=told_of, cancel=cancel, on_case=told)
        grade_collected(grading, run, context)
    if not cancel.is_set():
        why = next((outcome.detail for outcome in outcomes if not outcome.ok and outcome.detail), "")
        for case_id in resolved.cases.ids:
            lost = f"not checked: its shard did not come back{f' ({why})' if why else ''}"
            found.setdefault(case_id, CaseCheck(case_id, "FAILED", lost))
    return [found[case_id] for case_id in resolved.cases.ids if case_id in found]


def _asked(cases: CaseFile, stand_in: StandIn) -> Iterator[Case]:
    """The cases with the graders that say something about a stand-in, and without judges."""
    for case in cases:
        yield case.model_copy(update={"judges": [], "assertions": telling(case.assertions, stand_in)})


def _record(folder: RunFolder, resolved: ResolvedEval, plan: EvalPlan, cases: CaseFile, shards: Shards) -> RunRecord:
    return new_record(
        folder.run_id,
        plan,
        cases=cases,
        datasets=resolved.datasets,
        seed=0,
        environment=environment(shards.name, shards.count, None),
        selection=None,
        config_path=None,
    )


def empty_folder(root: Path, run_id: str) -> RunFolder:
    """A run folder below a root that nobody else uses."""
    path = root / "runs" / run_id
    path.mkdir(parents=True)
    return RunFolder(path)
