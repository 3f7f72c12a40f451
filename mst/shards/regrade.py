"""Grading a stored run, wherever its shards run: new, resumed, or begun by a process that is gone."""

from __future__ import annotations

from collections.abc import Sequence

from mst.errors import DispatchTaken, MstError, UsageError
from mst.model.run import Grading, GradingRunner, RunRecord
from mst.runs.earlier import EarlierGradings, refuse_changed
from mst.runs.folder import RunFolder
from mst.runs.inputs import write_inputs
from mst.runs.intact import refuse_altered
from mst.runs.record import regrade_record
from mst.shards.coordinate import clear_work, plans_of, until_sent
from mst.shards.dispatches import dispatches_of, drop_distrusted, take_back
from mst.shards.grade_here import grade_here
from mst.shards.grade_in_shards import follow, grade_in_shards
from mst.shards.request import GradeRequest, owes
from mst.shards.under_way import Graded, GradingContext, GradingUnderWay, with_runner


def grade(request: GradeRequest, context: GradingContext) -> Graded:
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
            return _grade_new(GradingUnderWay(request, folder, context))
        except DispatchTaken:
            # of a regrade whose folder is gone, or of another machine's: it keeps its number, this one takes the next
            following = request.claim(request.source)
            clear_work(folder.path)
            context.say(f"shards of a {folder.run_id} were sent before: this one is {following.run_id}")
            folder = following


def _grade_new(grading: GradingUnderWay) -> Graded:
    request, folder = grading.request, grading.folder
    with folder.locked(), grading.context.watching(folder):
        try:
            write_inputs(folder, request.inputs)
            run = _record(grading, ())
            folder.write_run(run)
            return _grade(grading, run, request.earlier(folder) if request.reused is not None else None)
        except DispatchTaken:
            raise
        except MstError:
            if not plans_of(folder.work, "grade") and not (folder.path / "scores").is_dir():
                clear_work(folder.path)
            raise


def grade_collected(request: GradeRequest, run: RunRecord, context: GradingContext) -> Graded:
    """Grade a run in its own folder, right after collecting. Verdicts that lie there already are kept.

    The caller holds the folder's lock.
    """
    folder = request.source
    grading = GradingUnderWay(request, folder, context)
    record = Grading(runner=_runner(grading, dispatches_of(folder, run)))
    take_back(grading)
    earlier = EarlierGradings(folder) if (folder.path / "scores").is_dir() else None
    return _grade(grading, run.model_copy(update={"grading": record}), earlier)


def attach_collected(request: GradeRequest, run: RunRecord, context: GradingContext) -> Graded:
    """Grade a run in its own folder, or go on with that when its coordinator is gone, maybe on another machine.

    The caller holds the folder's lock.

    Raises:
        SecretMissing: something must be asked or sent, and the request lacks a secret for it.
    """
    folder = request.source

    def step() -> Graded:
        followed = follow(GradingUnderWay(request, folder, context))
        if followed is not None:
            return followed
        if request.lacking is not None:
            raise request.lacking
        return grade_collected(request, run, context)

    context.runner.recall(folder.work)
    return until_sent(context.runner, folder.work, step)


def resume(request: GradeRequest, folder: RunFolder, context: GradingContext) -> Graded | None:
    """Grade in a regrade's own folder only what has no verdict. None when every grader has given its verdict.

    What the request distrusts is dropped first, and owed then.

    Raises:
        UsageError: graders or cases changed since; a distrusted machine or attempt gave no verdict.
        SecretMissing: something is owed, and the request lacks a secret for it.
    """
    with folder.locked(), context.watching(folder):
        return _resume(GradingUnderWay(request, folder, context))


def _resume(grading: GradingUnderWay) -> Graded | None:
    request, folder = grading.request, grading.folder
    before = folder.run()
    now = _record(grading, dispatches_of(folder, before))
    refuse_changed(before, now)
    take_back(grading)
    if request.distrusted:
        drop_distrusted(grading, before)
    earlier = request.earlier(folder)
    if before.phases.grade == "complete" and not any(owes(request, earlier, case) for case in request.inputs.cases):
        return None
    if request.lacking is not None:
        raise request.lacking
    if before.graders != now.graders:
        write_inputs(folder, request.inputs)
    run = _resumed(before, now)
    folder.write_run(run)
    return _grade(grading, run, earlier)


def _resumed(before: RunRecord, now: RunRecord) -> RunRecord:
    """The record of a grading that goes on with today's graders. What it wasted before stays wasted."""
    phases = before.phases.model_copy(update={"grade": "partial"})
    update = {"grading": now.grading, "graders": now.graders, "judges": now.judges, "phases": phases}
    run = before.model_copy(update=update)
    if before.grading is None:
        return run
    runner = before.grading.runner
    return with_runner(run, wasted_tokens=runner.wasted_tokens, wasted_cost_usd=runner.wasted_cost_usd)


def attach(request: GradeRequest, folder: RunFolder, context: GradingContext) -> Graded | None:
    """Go on with a grading whose coordinator is gone: follow its last dispatch, or finish it as the next one.

    What other machines sent is followed too. Following needs no secrets: workers have them sealed. The next dispatch
    does, see `resume`.
    """
    grading = GradingUnderWay(request, folder, context)

    def step() -> Graded | None:
        return follow(grading) or _resume(grading)

    with folder.locked(), context.watching(folder):
        if folder.run().phases.grade != "complete":
            context.runner.recall(folder.work)
        return until_sent(context.runner, folder.work, step)


def refuse_ungradable(source: RunFolder) -> None:
    """Refuse what cannot be graded.

    Raises:
        UsageError: no trials, or transcripts without their texts.
    """
    if not source.has_trials():
        raise UsageError(f"{source.run_id}: nothing was collected, so there is nothing to grade")
    if source.run().redact_stored_responses:
        raise UsageError(f"{source.run_id}: its transcripts were stored without answers; collect again to grade")


def _grade(grading: GradingUnderWay, run: RunRecord, earlier: EarlierGradings | None) -> Graded:
    if grading.request.runner_name == "local":
        return grade_here(grading, run, earlier)
    return grade_in_shards(grading, run, earlier)


def _record(grading: GradingUnderWay, dispatches: Sequence[str]) -> RunRecord:
    request = grading.request
    record = regrade_record(
        grading.folder.run_id,
        request.source.run(),
        request.plan,
        cases=request.inputs.cases,
        datasets=request.inputs.datasets,
        runner=_runner(grading, dispatches),
        selection=request.selection,
    )
    if request.reused is None or record.grading is None:
        return record
    reusing = record.grading.model_copy(update={"reused_from": request.reused.run_id})
    return record.model_copy(update={"grading": reusing})


def _runner(grading: GradingUnderWay, dispatches: Sequence[str]) -> GradingRunner:
    return GradingRunner(
        name=grading.request.runner_name,
        options=grading.context.runner.recorded_options() or None,
        shards=grading.request.shards,
        dispatches=list(dispatches) if dispatches else None,
    )
