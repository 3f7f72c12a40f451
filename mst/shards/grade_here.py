"""Grading a run in this process, within its budget."""

from __future__ import annotations

from contextlib import aclosing

from mst.grade.contract import GradingSource
from mst.grade.live import Live
from mst.model.run import RunRecord
from mst.model.summary import SummaryRecord
from mst.process.redact import Redactor
from mst.process.scratch import scratch_folder
from mst.runs.assemble import assemble
from mst.runs.earlier import EarlierGradings
from mst.runs.grading import GradingWalk, NotAsked
from mst.shards.coordinate import clear_work, planned_units
from mst.shards.local_budget import BudgetStop, both, spent_collecting
from mst.shards.request import Settled, lookup
from mst.shards.spend import Budget
from mst.shards.under_way import Graded, GradingUnderWay


def grade_here(grading: GradingUnderWay, run: RunRecord, earlier: EarlierGradings | None) -> Graded:
    """Grade every case; verdicts that were given before are kept."""
    request, folder = grading.request, grading.folder
    units = (planned_units(request.plan, case, request.variants, request.source) for case in request.inputs.cases)
    grading.context.events.planned(sum(map(len, units)))
    with scratch_folder("grade") as scratch:
        live = Live(
            request.plan,
            files=request.inputs.files,
            secrets=request.secrets,
            scratch=scratch,
            redactor=Redactor(request.secrets.values()),
            earlier=lookup(request, earlier) if earlier is not None else lambda _key: None,
        )
        summary = grading.context.cancel.run(_walked(grading, run, live, earlier))
    clear_work(folder.work)
    return Graded(folder=folder, summary=summary)


async def _walked(
    grading: GradingUnderWay, run: RunRecord, live: Live, earlier: EarlierGradings | None
) -> SummaryRecord:
    request, context = grading.request, grading.context
    judges = request.judges()
    stop = _budget_stop(grading, has_judges=bool(judges))
    unasked: GradingSource = NotAsked("cancelled, or the budget is used up" if request.plan.budget else "cancelled")
    walk = GradingWalk(
        plan=request.plan,
        trials=request.source,
        source=live,
        variants=request.variants,
        cancel=stop,
        starting=stop.starting,
        told=stop.told if context.told is None else both(stop.told, context.told),
        unasked=unasked if earlier is None else Settled(unasked, earlier),
    )
    async with aclosing(live):
        await live.preflight(judges)
        return await assemble(grading.folder, run, walk, request.inputs.cases, on_case=context.on_case)


def _budget_stop(grading: GradingUnderWay, *, has_judges: bool) -> BudgetStop:
    request, folder = grading.request, grading.folder
    # without judges nothing costs anything; what a run collected counts against its budget, and a regrade has its own
    budget = Budget.of(request.plan.budget) if has_judges else None
    own = folder.run_id == request.source.run_id
    before = spent_collecting(folder, request.variants, request.inputs.cases, request.plan) if own else ()
    return BudgetStop(budget, grading.context.cancel, grading.context.say, before)
