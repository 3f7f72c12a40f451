"""From what the user asked to a collected and graded run."""

from __future__ import annotations

import json
import secrets as randomness
from datetime import UTC, datetime

import click

from mst.cli.cancelling import cancelled_on_request
from mst.cli.detaching import refuse_alone, say_detached, shared_store
from mst.cli.interrupts import cancelled_by_interrupt
from mst.cli.phases import Course, go_through, trials_left
from mst.cli.preflight import estimate_line, plan_document
from mst.cli.progress import say
from mst.cli.results import check_results, located, pushed
from mst.cli.starting import Asked, Place, estimated, places, planned, probed, selection_for
from mst.config.layers import eval_name
from mst.config.resolve import ResolvedEval, load_eval
from mst.config.secrets import short_values
from mst.errors import MstError, UsageError
from mst.model.run import Grading, GradingRunner, RunRecord
from mst.runs.extend import changes, extended
from mst.runs.folder import RunFolder
from mst.runs.inputs import GradeInputs, write_inputs
from mst.runs.locate import new_run
from mst.runs.record import cases_identity, environment, new_record
from mst.shards.contract import Cancel
from mst.shards.coordinate import clear_work, plans_of
from mst.shards.detached import Detached


def run_eval(asked: Asked) -> int:
    """Collect, grade unless asked not to, and end; returns the exit code."""
    resumed = located(asked.resuming, asked.output_dir, asked.results) if asked.resuming else None
    selection = selection_for(asked, resumed, eval_name(asked.config) if asked.only else "")
    with load_eval(asked.config, selection=selection) as resolved:
        for warning in resolved.warnings:
            click.echo(f"mst: {warning}", err=True)
        again = None if resumed is None else _again(asked, resumed, resolved)
        collecting, grading = places(asked, resolved)
        for warning in short_values({**collecting.secrets, **grading.secrets}):
            click.echo(f"mst: {warning}", err=True)
        left = planned(resolved) if again is None or resumed is None else trials_left(resumed, again, _inputs(resolved))
        if asked.detach:
            _refuse_detaching(asked, collecting, left.total())
        check_results(asked.results, resolved.plan.name, writes=not asked.dry_run)
        found, at_once = estimated(asked, resolved, left), collecting.at_once(resolved.plan.concurrency)
        if asked.dry_run:
            click.echo(json.dumps(plan_document(resolved, found, at_once=at_once), indent=2))
            return 0
        if left.total():
            probed(asked, resolved, collecting)
            say(estimate_line(found, at_once=at_once))
        course = Course(
            folder=resumed or new_run(asked.output_dir, resolved.plan.name, datetime.now(UTC)),
            inputs=_inputs(resolved),
            collecting=collecting,
            grading=None if asked.no_grade else grading,
            left=left.total(),
            secrets_file=asked.secrets_file,
            fail_on=asked.fail_on,
            as_json=asked.as_json,
            fail_fast=asked.fail_fast,
            detach=asked.detach,
        )
        with course.folder.locked():
            return _run(asked, resolved, course, again)


def _run(asked: Asked, resolved: ResolvedEval, course: Course, again: RunRecord | None) -> int:
    cancel, folder = Cancel(), course.folder
    run = _begin(asked, resolved, course) if again is None else _go_on(course, again)
    with cancelled_by_interrupt(cancel), cancelled_on_request(folder, cancel):
        try:
            code = go_through(course, run, cancel)
        except Detached as left:
            asks = course.grading is not None and bool(course.grading.secrets)
            say_detached(left, course.collecting.options, needs_secrets=asks)
            return 0
        except MstError:
            if again is None:
                _forget_unbegun(folder)
            raise
    pushed(folder, asked.results, interrupted=code == 130)
    return code


def _refuse_detaching(asked: Asked, collecting: Place, left: int) -> None:
    """Refuse to leave what cannot be left.

    Raises:
        UsageError: saying why.
    """
    refuse_alone(collecting.kind, collecting.options)
    if asked.fail_fast:
        raise UsageError("--detach: nobody would look whether a trial breaks down; leave out --fail-fast")
    if asked.results is not None and asked.results != shared_store(collecting.options):
        raise UsageError(
            f"--detach: the run goes into the store of the fleet, not into {asked.results}; leave out --results, and "
            "push it there with 'mst store push' when it is done"
        )
    if not left:
        raise UsageError(
            f"--detach: every trial of {asked.resuming} is there, so there is nothing to send; grade it with "
            f"'mst grade {asked.resuming}', which has --detach too"
        )


def _forget_unbegun(folder: RunFolder) -> None:
    """Remove a new run of which nothing was sent or collected: a wrong set-up leaves no run."""
    if not plans_of(folder.work, "collect") and not folder.has_trials():
        clear_work(folder.path)


def _begin(asked: Asked, resolved: ResolvedEval, course: Course) -> RunRecord:
    place = course.collecting
    recorded = place.options.model_dump(mode="json", exclude_defaults=True)
    run = new_record(
        course.folder.run_id,
        resolved.plan,
        cases=resolved.cases,
        datasets=resolved.datasets,
        seed=asked.seed if asked.seed is not None else randomness.randbelow(2**31),
        environment=environment(place.name, place.shards, recorded),
        selection=resolved.selection,
        config_path=asked.config.resolve(),
    )
    run = run.model_copy(update={"grading": _planned_grading(course, None)})
    write_inputs(course.folder, course.inputs)
    course.folder.write_run(run)
    return run


def _planned_grading(course: Course, before: Grading | None) -> Grading | None:
    """Where the run is to be graded, for whoever goes on with it."""
    place = course.grading
    if place is None:
        return before
    options = place.options.model_dump(mode="json", exclude_defaults=True)
    where = GradingRunner(name=place.name, options=options or None, shards=place.shards)
    if before is None:
        return Grading(runner=where)
    known = before.runner.model_copy(update={"name": where.name, "options": where.options, "shards": where.shards})
    return before.model_copy(update={"runner": known})


def _again(asked: Asked, folder: RunFolder, resolved: ResolvedEval) -> RunRecord:
    """The record of a run that is gone on with, or added to.

    Raises:
        UsageError: something changed that must not.
    """
    run = folder.run()
    if run.graded_from is not None:
        raise UsageError(f"{run.run_id} is a regrade; collect with --resume {run.graded_from}")
    if asked.extend:
        return extended(
            folder,
            resolved.plan,
            cases=resolved.cases,
            datasets=resolved.datasets,
            selection=resolved.selection,
        )
    if run.content_hash != resolved.plan.content_hash or run.cases_hash != cases_identity(resolved.cases):
        what = "eval" if run.content_hash != resolved.plan.content_hash else "eval's cases"
        head = (
            f"{run.run_id}: the {what} changed since this run was started, so it cannot be resumed; start a new run, "
            "or say --extend too if there are only more trials, cases or variants"
        )
        raise UsageError("\n".join([head, *changes(folder, resolved.plan, resolved.cases)]))
    return run


def _go_on(course: Course, run: RunRecord) -> RunRecord:
    """Write what is done now, and what an extension changed.

    The record goes first: who dies after it is resumed like any other.
    """
    folder = course.folder
    before = folder.run()
    if course.left or course.grading is not None:
        phases = run.phases.model_copy(update={"collect": "partial"}) if course.left else run.phases
        update = {"grading": _planned_grading(course, run.grading), "finished_at": None, "phases": phases}
        run = run.model_copy(update=update)
    if run != before:
        folder.write_run(run)
    if run.looks != before.looks:
        say(f"this makes look {(run.looks or 0) + 1} at the data of {run.run_id}, and its report will say so")
    if folder.cases().hash != course.inputs.cases.hash:
        write_inputs(folder, course.inputs)
    return run


def _inputs(resolved: ResolvedEval) -> GradeInputs:
    return GradeInputs(
        plan=resolved.plan, cases=resolved.cases, datasets=resolved.datasets, files=resolved.files, notes=()
    )
