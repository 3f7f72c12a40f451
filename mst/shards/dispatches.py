"""What the dispatches of a grading have brought back, and taking it into the folder."""

from __future__ import annotations

from collections.abc import Iterator

from mst.errors import UsageError
from mst.model.run import RunRecord
from mst.model.shard import Unit
from mst.runs.authors import drop, given_by, note_authors, settled
from mst.runs.earlier import adopt
from mst.runs.folder import RunFolder
from mst.shards.coordinate import Plan, plans_of
from mst.shards.under_way import GradingUnderWay
from mst.shards.units import each_finished


def dispatches_of(folder: RunFolder, run: RunRecord) -> list[str]:
    """The grading's dispatches, with those that other machines sent."""
    recorded = (run.grading.runner.dispatches or []) if run.grading is not None else []
    sent = (plan.specs[0].dispatch for plan in unsettled(folder))
    return [*recorded, *(dispatch for dispatch in sent if dispatch not in recorded)]


def unsettled(folder: RunFolder) -> list[Plan]:
    """The dispatches that may still bring something, by number."""
    done = settled(folder)
    return [plan for plan in plans_of(folder.work, "grade") if not done & {spec.dispatch for spec in plan.specs}]


def finished(plan: Plan) -> Iterator[Unit]:
    """The units that came back whole."""
    for spec in plan.specs:
        yield from each_finished(spec.results, spec.planned, spec.digest)


def take_back(grading: GradingUnderWay) -> None:
    """Write the verdicts that earlier dispatches brought back into the folder, where a resume finds them."""
    for plan in unsettled(grading.folder):
        take_back_one(grading, plan)


def take_back_one(grading: GradingUnderWay, plan: Plan) -> None:
    """The same for one dispatch."""
    grading.context.runner.recover(plan.specs)
    note_authors(grading.folder, finished(plan))
    for unit in finished(plan):
        found = unit.trial_grading or unit.comparison_grading
        if found is not None:
            adopt(grading.folder, grading.request.plan.baseline, found)


def drop_distrusted(grading: GradingUnderWay, run: RunRecord) -> None:
    """Drop what the request distrusts. Everything that dispatches brought so far was taken back before.

    Raises:
        UsageError: nothing is known of it; or the regrade took verdicts of another one, which would bring them back.
    """
    request, folder = grading.request, grading.folder
    if request.reused is not None:
        raise UsageError(
            f"{run.run_id} took verdicts of {request.reused.run_id}: distrust there, then make a new regrade "
            f"with 'mst grade {run.graded_from} --reuse {request.reused.run_id}'"
        )
    dispatches = dispatches_of(folder, run)
    verdicts = given_by(folder, request.distrusted)
    folder.write_run(run.model_copy(update={"phases": run.phases.model_copy(update={"grade": "partial"})}))
    drop(folder, verdicts, dispatches)
    dropped = f"{len(verdicts)} verdict{'' if len(verdicts) == 1 else 's'} dropped"
    grading.context.say(f"{folder.run_id}: {dropped}, to be given again")
