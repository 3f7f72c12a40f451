"""Grading a stored run, wherever its shards run: new, resumed, or begun by a process that is gone."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, aclosing, nullcontext
from dataclasses import dataclass
from typing import Any

from mst.config.registry import plugin_versions
from mst.errors import DispatchTaken, MstError, UsageError
from mst.grade.contract import GradingSource
from mst.grade.live import Live
from mst.grade.names import pairwise_for
from mst.model.case import Case
from mst.model.run import Grading, GradingRunner, RunRecord
from mst.model.shard import Unit, UnitKey
from mst.model.summary import SummaryRecord
from mst.process.redact import Redactor
from mst.process.scratch import scratch_folder
from mst.runs.assemble import assemble
from mst.runs.authors import drop, given_by, note_authors, settled
from mst.runs.earlier import EarlierGradings, adopt, refuse_changed
from mst.runs.folder import RunFolder
from mst.runs.grading import GradedCase, NotAsked, Starting, Told
from mst.runs.inputs import write_inputs
from mst.runs.intact import refuse_altered
from mst.runs.record import regrade_record
from mst.shards.bundle import BundleInput
from mst.shards.contract import Cancel, Runner, ShardEvents, ShardOutcome
from mst.shards.coordinate import (
    Plan,
    clear_work,
    machines,
    next_dispatch,
    plan_grading,
    planned_units,
    plans_of,
    recorded_source,
    refuse_terminal,
    run_plan,
    save_plan,
    until_sent,
)
from mst.shards.local_budget import BudgetStop, both, spent_collecting
from mst.shards.request import GradeRequest, Settled, lookup, owes
from mst.shards.spend import Budget
from mst.shards.units import each_finished


@dataclass(frozen=True, kw_only=True)
class Hooks:
    """Whom to tell while a grading runs in this process.

    Attributes:
        watching: entered with the folder that is written, for as long as it is.
        say: told what a person should read.
    """

    starting: Starting | None = None
    told: Told | None = None
    on_case: Callable[[GradedCase], None] | None = None
    watching: Callable[[RunFolder], AbstractContextManager[None]] = lambda _folder: nullcontext()
    say: Callable[[str], None] = lambda _text: None


@dataclass(frozen=True, kw_only=True)
class Graded:
    """A finished grading; its summary says how complete it is. `refused` tells why no shard could start."""

    folder: RunFolder
    summary: SummaryRecord
    refused: str | None = None


def grade(request: GradeRequest, runner: Runner, events: ShardEvents, cancel: Cancel, hooks: Hooks) -> Graded:
    """Grade a run as a new regrade beside it.

    Raises:
        UsageError: nothing was collected, transcripts were redacted.
        CorruptFile, ObjectMissing, DigestMismatch: a trial is not what was collected.
        GraderError: a judge's preflight failed here.
        RefusedError: a secret's value stands in what would be sent.
        InfrastructureError: what it needs cannot be reached. When nothing was sent or graded yet, no regrade is left.
    """
    refuse_ungradable(request.source)
    refuse_altered(request.source, (key for case in request.inputs.cases for key in request.keys(case)))
    folder = request.claim(request.source)
    while True:
        try:
            return _grade_new(request, folder, runner, events, cancel, hooks)
        except DispatchTaken:
            # of a regrade whose folder is gone, or of another machine's: it keeps its number, this one takes the next
            following = request.claim(request.source)
            clear_work(folder.path)
            hooks.say(f"shards of a {folder.run_id} were sent before: this one is {following.run_id}")
            folder = following


def _grade_new(
    request: GradeRequest, folder: RunFolder, runner: Runner, events: ShardEvents, cancel: Cancel, hooks: Hooks
) -> Graded:
    with folder.locked(), hooks.watching(folder):
        try:
            run = _begin(request, folder, runner)
            earlier = request.earlier(folder) if request.reused is not None else None
            return _grade(request, folder, run, runner, events, cancel, hooks, earlier=earlier)
        except DispatchTaken:
            raise
        except MstError:
            if not plans_of(folder.work, "grade") and not (folder.path / "scores").is_dir():
                clear_work(folder.path)
            raise


def grade_collected(
    request: GradeRequest, run: RunRecord, runner: Runner, events: ShardEvents, cancel: Cancel, hooks: Hooks
) -> Graded:
    """Grade a run in its own folder, right after collecting. Verdicts that lie there already are kept.

    The caller holds the folder's lock.
    """
    folder = request.source
    grading = Grading(runner=_runner(request, runner, _dispatches(folder, run)))
    run = run.model_copy(update={"grading": grading})
    _take_back(folder, request, runner)
    earlier = EarlierGradings(folder) if (folder.path / "scores").is_dir() else None
    return _grade(request, folder, run, runner, events, cancel, hooks, earlier=earlier)


def attach_collected(
    request: GradeRequest, run: RunRecord, runner: Runner, events: ShardEvents, cancel: Cancel, hooks: Hooks
) -> Graded:
    """Grade a run in its own folder, or go on with that when its coordinator is gone, maybe on another machine.

    The caller holds the folder's lock.

    Raises:
        SecretMissing: something must be asked or sent, and the request lacks a secret for it.
    """
    folder = request.source

    def step() -> Graded:
        followed = _follow(request, folder, runner, events, cancel, hooks)
        if followed is not None:
            return followed
        if request.lacking is not None:
            raise request.lacking
        return grade_collected(request, run, runner, events, cancel, hooks)

    runner.recall(folder.work)
    return until_sent(runner, folder.work, step)


def resume(
    request: GradeRequest, folder: RunFolder, runner: Runner, events: ShardEvents, cancel: Cancel, hooks: Hooks
) -> Graded | None:
    """Grade in a regrade's own folder only what has no verdict. None when every grader has given its verdict.

    What the request distrusts is dropped first, and owed then.

    Raises:
        UsageError: graders or cases changed since; a distrusted machine or attempt gave no verdict.
        SecretMissing: something is owed, and the request lacks a secret for it.
    """
    with folder.locked(), hooks.watching(folder):
        return _resume(request, folder, runner, events, cancel, hooks)


def _resume(
    request: GradeRequest, folder: RunFolder, runner: Runner, events: ShardEvents, cancel: Cancel, hooks: Hooks
) -> Graded | None:
    before = folder.run()
    now = _record(request, folder, runner, _dispatches(folder, before))
    refuse_changed(before, now)
    _take_back(folder, request, runner)
    if request.distrusted:
        _drop(request, folder, before, hooks)
    earlier = request.earlier(folder)
    if before.phases.grade == "complete" and not any(owes(request, earlier, case) for case in request.inputs.cases):
        return None
    if request.lacking is not None:
        raise request.lacking
    if before.graders != now.graders:
        write_inputs(folder, request.inputs)
    assert now.grading is not None
    phases = before.phases.model_copy(update={"grade": "partial"})
    grading = now.grading.model_copy(update={"runner": now.grading.runner.model_copy(update=_wasted(before, ()))})
    update = {"grading": grading, "graders": now.graders, "judges": now.judges, "phases": phases}
    run = before.model_copy(update=update)
    folder.write_run(run)
    return _grade(request, folder, run, runner, events, cancel, hooks, earlier=earlier)


def attach(
    request: GradeRequest, folder: RunFolder, runner: Runner, events: ShardEvents, cancel: Cancel, hooks: Hooks
) -> Graded | None:
    """Go on with a grading whose coordinator is gone: follow its last dispatch, or finish it as the next one.

    What other machines sent is followed too. Following needs no secrets: workers have them sealed. The next dispatch
    does, see `resume`.
    """

    def step() -> Graded | None:
        followed = _follow(request, folder, runner, events, cancel, hooks)
        return followed or _resume(request, folder, runner, events, cancel, hooks)

    with folder.locked(), hooks.watching(folder):
        if folder.run().phases.grade != "complete":
            runner.recall(folder.work)
        return until_sent(runner, folder.work, step)


def _follow(
    request: GradeRequest, folder: RunFolder, runner: Runner, events: ShardEvents, cancel: Cancel, hooks: Hooks
) -> Graded | None:
    """Follow the last dispatch to its end. None when there is none, or nobody can be working on it any more."""
    plans = _unsettled(folder)
    if not plans:
        return None
    *before, last = plans
    events.planned(sum(len(spec.planned) for spec in last.specs))
    outcomes = runner.follow(last.specs, events, cancel)
    if outcomes is None:
        return None
    for plan in before:
        _adopt(folder, request, plan, runner)
    note_authors(folder, _finished(last))
    # a dispatch that resumed an earlier one was sent only what was owed
    source = Settled(recorded_source(last, outcomes), request.earlier(folder))
    run = folder.run()
    assert run.grading is not None
    recorded = run.grading.runner.model_copy(update={"dispatches": _dispatches(folder, run)})
    run = run.model_copy(update={"grading": run.grading.model_copy(update={"runner": recorded})})
    return _assemble(request, folder, run, source, cancel, hooks, outcomes)


def refuse_ungradable(source: RunFolder) -> None:
    """Refuse what cannot be graded.

    Raises:
        UsageError: no trials, or transcripts without their texts.
    """
    if not source.has_trials():
        raise UsageError(f"{source.run_id}: nothing was collected, so there is nothing to grade")
    if source.run().redact_stored_responses:
        raise UsageError(f"{source.run_id}: its transcripts were stored without answers; collect again to grade")


def _begin(request: GradeRequest, folder: RunFolder, runner: Runner) -> RunRecord:
    write_inputs(folder, request.inputs)
    run = _record(request, folder, runner, ())
    folder.write_run(run)
    return run


def _record(request: GradeRequest, folder: RunFolder, runner: Runner, dispatches: Sequence[str]) -> RunRecord:
    record = regrade_record(
        folder.run_id,
        request.source.run(),
        request.plan,
        cases=request.inputs.cases,
        datasets=request.inputs.datasets,
        runner=_runner(request, runner, dispatches),
        selection=request.selection,
    )
    if request.reused is None or record.grading is None:
        return record
    grading = record.grading.model_copy(update={"reused_from": request.reused.run_id})
    return record.model_copy(update={"grading": grading})


def _runner(request: GradeRequest, runner: Runner, dispatches: Sequence[str]) -> GradingRunner:
    return GradingRunner(
        name=request.runner_name,
        options=runner.recorded_options() or None,
        shards=request.shards,
        dispatches=list(dispatches) if dispatches else None,
    )


def _grade(
    request: GradeRequest,
    folder: RunFolder,
    run: RunRecord,
    runner: Runner,
    events: ShardEvents,
    cancel: Cancel,
    hooks: Hooks,
    *,
    earlier: EarlierGradings | None,
) -> Graded:
    if request.runner_name == "local":
        events.planned(sum(len(_units(request, case)) for case in request.inputs.cases))
        return _grade_here(request, folder, run, cancel, hooks, earlier)
    plan, run = _send(request, folder, run, earlier)
    outcomes = run_plan(plan, folder.work, runner, events, cancel) if plan.specs else []
    note_authors(folder, _finished(plan))
    source: GradingSource = recorded_source(plan, outcomes)
    if earlier is not None:
        source = Settled(source, earlier)
    return _assemble(request, folder, run, source, cancel, hooks, outcomes)


def _units(request: GradeRequest, case: Case) -> Sequence[UnitKey]:
    return planned_units(request.plan, case, request.variants, request.source)


def _send(
    request: GradeRequest, folder: RunFolder, run: RunRecord, earlier: EarlierGradings | None
) -> tuple[Plan, RunRecord]:
    assert run.grading is not None
    known = run.grading.runner.dispatches or []
    dispatch = next_dispatch(folder.work, known)
    given = BundleInput(
        plan=request.plan,
        datasets=request.inputs.datasets,
        run_id=folder.run_id,
        files=request.inputs.files,
        seed=run.order.seed,
        count=request.shards,
        variants=request.variants,
        plugins=plugin_versions(request.plan.plugins),
        secrets=request.secret_names,
        secret_values=list(request.secrets.values()),
        dispatch=dispatch,
    )
    plan = plan_grading(
        given,
        cases=request.inputs.cases,
        case_ids=[case.id for case in request.inputs.cases if earlier is None or owes(request, earlier, case)],
        run=run,
        stored=request.source,
        folder=folder.work / dispatch,
        earlier_trial=(lambda key, case: earlier.trial(key, request.graders(key, case))) if earlier else None,
        earlier_comparison=(lambda key: earlier.comparison(key, pairwise_for(request.plan))) if earlier else None,
    )
    if plan.specs:
        save_plan(plan, folder.work / dispatch)
    runner = run.grading.runner.model_copy(update={"dispatches": [*known, dispatch]})
    run = run.model_copy(update={"grading": run.grading.model_copy(update={"runner": runner})})
    folder.write_run(run)
    return plan, run


def _assemble(
    request: GradeRequest,
    folder: RunFolder,
    run: RunRecord,
    source: GradingSource,
    cancel: Cancel,
    hooks: Hooks,
    outcomes: Sequence[ShardOutcome],
) -> Graded:
    assert run.grading is not None
    recorded = run.grading.runner.model_copy(update={"machines": machines(outcomes), **_wasted(run, outcomes)})
    summary = asyncio.run(
        assemble(
            folder,
            run,
            plan=request.plan,
            cases=request.inputs.cases,
            trials=request.source,
            source=source,
            variants=request.variants,
            cancel=Cancel(),
            runner=recorded,
            on_case=hooks.on_case,
            kept_elsewhere=True,
        )
    )
    if not cancel.is_set():
        clear_work(folder.work)
    return Graded(folder=folder, summary=summary, refused=refuse_terminal(outcomes))


def _grade_here(
    request: GradeRequest,
    folder: RunFolder,
    run: RunRecord,
    cancel: Cancel,
    hooks: Hooks,
    earlier: EarlierGradings | None,
) -> Graded:
    assert run.grading is not None
    with scratch_folder("grade") as scratch:
        live = Live(
            request.plan,
            files=request.inputs.files,
            secrets=request.secrets,
            scratch=scratch,
            redactor=Redactor(request.secrets.values()),
            earlier=lookup(request, earlier) if earlier is not None else lambda _key: None,
        )
        summary = asyncio.run(_here(request, folder, run, live, cancel, hooks, earlier))
    clear_work(folder.work)
    return Graded(folder=folder, summary=summary)


def _wasted(run: RunRecord, outcomes: Sequence[ShardOutcome]) -> dict[str, Any]:
    """What lost attempts used in all, in earlier dispatches too."""
    before = run.grading.runner if run.grading is not None else None
    tokens = sum(outcome.wasted_tokens for outcome in outcomes) + ((before and before.wasted_tokens) or 0)
    usd = sum(outcome.wasted_usd for outcome in outcomes) + ((before and before.wasted_cost_usd) or 0.0)
    return {"wasted_tokens": tokens or None, "wasted_cost_usd": round(usd, 6) or None}


async def _here(
    request: GradeRequest,
    folder: RunFolder,
    run: RunRecord,
    live: Live,
    cancel: Cancel,
    hooks: Hooks,
    earlier: EarlierGradings | None,
) -> SummaryRecord:
    assert run.grading is not None
    judges = request.judges()
    # without judges nothing costs anything; what a run collected counts against its budget, and a regrade has its own
    budget = Budget.of(request.plan.budget) if judges else None
    own = folder.run_id == request.source.run_id
    before = spent_collecting(folder, request.variants, request.inputs.cases, request.plan) if own else ()
    stop = BudgetStop(budget, cancel, hooks.say, before)
    unasked: GradingSource = NotAsked("cancelled, or the budget is used up" if request.plan.budget else "cancelled")
    async with aclosing(live):
        await live.preflight(judges)
        return await assemble(
            folder,
            run,
            plan=request.plan,
            cases=request.inputs.cases,
            trials=request.source,
            source=live,
            variants=request.variants,
            cancel=stop,
            runner=run.grading.runner,
            unasked=unasked if earlier is None else Settled(unasked, earlier),
            starting=both(stop.starting, hooks.starting),
            told=both(stop.told, hooks.told),
            on_case=hooks.on_case,
        )


def _dispatches(folder: RunFolder, run: RunRecord) -> list[str]:
    """The grading's dispatches, with those that other machines sent."""
    recorded = (run.grading.runner.dispatches or []) if run.grading is not None else []
    sent = (plan.specs[0].dispatch for plan in _unsettled(folder))
    return [*recorded, *(dispatch for dispatch in sent if dispatch not in recorded)]


def _unsettled(folder: RunFolder) -> list[Plan]:
    """The dispatches that may still bring something, by number."""
    done = settled(folder)
    return [plan for plan in plans_of(folder.work, "grade") if not done & {spec.dispatch for spec in plan.specs}]


def _finished(plan: Plan) -> Iterator[Unit]:
    for spec in plan.specs:
        yield from each_finished(spec.results, spec.planned, spec.digest)


def _take_back(folder: RunFolder, request: GradeRequest, runner: Runner) -> None:
    """Write the verdicts that earlier dispatches brought back into the folder, where a resume finds them."""
    for plan in _unsettled(folder):
        _adopt(folder, request, plan, runner)


def _adopt(folder: RunFolder, request: GradeRequest, plan: Plan, runner: Runner) -> None:
    runner.recover(plan.specs)
    note_authors(folder, _finished(plan))
    for unit in _finished(plan):
        found = unit.trial_grading or unit.comparison_grading
        if found is not None:
            adopt(folder, request.plan.baseline, found)


def _drop(request: GradeRequest, folder: RunFolder, run: RunRecord, hooks: Hooks) -> None:
    """Drop what the request distrusts. Everything that dispatches brought so far was taken back before.

    Raises:
        UsageError: nothing is known of it; or the regrade took verdicts of another one, which would bring them back.
    """
    if request.reused is not None:
        raise UsageError(
            f"{run.run_id} took verdicts of {request.reused.run_id}: distrust there, then make a new regrade "
            f"with 'mst grade {run.graded_from} --reuse {request.reused.run_id}'"
        )
    dispatches = _dispatches(folder, run)
    verdicts = given_by(folder, request.distrusted)
    folder.write_run(run.model_copy(update={"phases": run.phases.model_copy(update={"grade": "partial"})}))
    drop(folder, verdicts, dispatches)
    hooks.say(f"{folder.run_id}: {len(verdicts)} verdict{'' if len(verdicts) == 1 else 's'} dropped, to be given again")
