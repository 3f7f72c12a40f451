"""Grading a run in shards: send what is owed, or follow what was sent, and write the folder of what came back."""

from __future__ import annotations

from collections.abc import Sequence

from mst.config.registry import plugin_versions
from mst.grade.contract import GradingSource
from mst.grade.names import pairwise_for
from mst.model.run import RunRecord
from mst.runs.assemble import assemble
from mst.runs.authors import note_authors
from mst.runs.earlier import EarlierGradings
from mst.runs.grading import GradingWalk
from mst.shards.bundle import BundleInput
from mst.shards.contract import Cancel, ShardOutcome
from mst.shards.coordinate import (
    Plan,
    clear_work,
    machines,
    next_dispatch,
    plan_grading,
    recorded_source,
    refuse_terminal,
    run_plan,
    save_plan,
)
from mst.shards.dispatches import dispatches_of, finished, take_back_one, unsettled
from mst.shards.request import GradeRequest, Settled, owes
from mst.shards.under_way import Graded, GradingUnderWay, with_runner


def grade_in_shards(grading: GradingUnderWay, run: RunRecord, earlier: EarlierGradings | None) -> Graded:
    """Send what is owed as the next dispatch, wait for its end, and write the folder."""
    folder, context = grading.folder, grading.context
    dispatch = next_dispatch(folder.work, _recorded_dispatches(run))
    plan = _planned(grading, run, dispatch, earlier)
    if plan.specs:
        save_plan(plan, folder.work / dispatch)
    run = with_runner(run, dispatches=[*_recorded_dispatches(run), dispatch])
    folder.write_run(run)
    outcomes = run_plan(plan, folder.work, context.runner, context.events, context.cancel) if plan.specs else []
    note_authors(folder, finished(plan))
    source: GradingSource = recorded_source(plan, outcomes)
    if earlier is not None:
        source = Settled(source, earlier)
    return _assembled(grading, run, source, outcomes)


def follow(grading: GradingUnderWay) -> Graded | None:
    """Follow the last dispatch to its end. None when there is none, or nobody can be working on it any more."""
    folder, context = grading.folder, grading.context
    plans = unsettled(folder)
    if not plans:
        return None
    *before, last = plans
    context.events.planned(sum(len(spec.planned) for spec in last.specs))
    outcomes = context.runner.follow(last.specs, context.events, context.cancel)
    if outcomes is None:
        return None
    for plan in before:
        take_back_one(grading, plan)
    note_authors(folder, finished(last))
    # a dispatch that resumed an earlier one was sent only what was owed
    source = Settled(recorded_source(last, outcomes), grading.request.earlier(folder))
    run = folder.run()
    run = with_runner(run, dispatches=dispatches_of(folder, run))
    return _assembled(grading, run, source, outcomes)


def _recorded_dispatches(run: RunRecord) -> list[str]:
    assert run.grading is not None
    return run.grading.runner.dispatches or []


def _planned(grading: GradingUnderWay, run: RunRecord, dispatch: str, earlier: EarlierGradings | None) -> Plan:
    request = grading.request
    return plan_grading(
        _bundle_input(request, grading.folder.run_id, run, dispatch),
        cases=request.inputs.cases,
        case_ids=[case.id for case in request.inputs.cases if earlier is None or owes(request, earlier, case)],
        run=run,
        stored=request.source,
        folder=grading.folder.work / dispatch,
        earlier_trial=(lambda key, case: earlier.trial(key, request.graders(key, case))) if earlier else None,
        earlier_comparison=(lambda key: earlier.comparison(key, pairwise_for(request.plan))) if earlier else None,
    )


def _bundle_input(request: GradeRequest, run_id: str, run: RunRecord, dispatch: str) -> BundleInput:
    return BundleInput(
        plan=request.plan,
        datasets=request.inputs.datasets,
        run_id=run_id,
        files=request.inputs.files,
        seed=run.order.seed,
        count=request.shards,
        variants=request.variants,
        plugins=plugin_versions(request.plan.plugins),
        secrets=request.secret_names,
        secret_values=list(request.secrets.values()),
        dispatch=dispatch,
    )


def _assembled(
    grading: GradingUnderWay, run: RunRecord, source: GradingSource, outcomes: Sequence[ShardOutcome]
) -> Graded:
    request, folder, context = grading.request, grading.folder, grading.context
    run = with_runner(_with_wasted(run, outcomes), machines=machines(outcomes))
    # a `Cancel` of its own: what came back is written to the end, though nobody wants more of it
    walk = GradingWalk(
        plan=request.plan, trials=request.source, source=source, variants=request.variants, cancel=Cancel()
    )
    cases = request.inputs.cases
    summary = context.cancel.run(assemble(folder, run, walk, cases, on_case=context.on_case, kept_elsewhere=True))
    if not context.cancel.is_set():
        clear_work(folder.work)
    return Graded(folder=folder, summary=summary, refused=refuse_terminal(outcomes))


def _with_wasted(run: RunRecord, outcomes: Sequence[ShardOutcome]) -> RunRecord:
    """Add what lost attempts used to what those of earlier dispatches did."""
    assert run.grading is not None
    before = run.grading.runner
    tokens = sum(outcome.wasted_tokens for outcome in outcomes) + (before.wasted_tokens or 0)
    usd = sum(outcome.wasted_usd for outcome in outcomes) + (before.wasted_cost_usd or 0.0)
    return with_runner(run, wasted_tokens=tokens or None, wasted_cost_usd=round(usd, 6) or None)
