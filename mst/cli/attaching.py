"""`mst attach` on what `mst run` began: collecting is followed to its end, then the run is graded as planned."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from mst.cli.cancelling import cancelled_on_request
from mst.cli.detaching import publisher
from mst.cli.ending import finish
from mst.cli.grading import options_again, parse_options
from mst.cli.interrupts import cancelled_by_interrupt
from mst.cli.phases import Course, go_through, trials_left
from mst.cli.running import run_eval
from mst.cli.starting import Asked, Place
from mst.config.registry import lookup
from mst.config.secrets import names_needed, secrets_for
from mst.errors import NothingSent, SecretMissing, UsageError
from mst.model.run import RunRecord
from mst.model.shard import Work
from mst.runs.folder import RunFolder
from mst.runs.inputs import GradeInputs, stored_inputs
from mst.shards.contract import Cancel
from mst.shards.coordinate import clear_work, plans_of


def attach_run(folder: RunFolder, *, secrets_file: Path | None, fail_on: tuple[str, ...], as_json: bool) -> int:
    """Go on with a run whose coordinator is gone; returns the exit code."""
    run = folder.run()
    try:
        if run.phases.collect != "complete" and _can_be_nowhere_else(folder, run):
            raise NothingSent(run.run_id)
        return _attach(folder, secrets_file=secrets_file, fail_on=fail_on, as_json=as_json)
    except NothingSent:
        return _resume(folder, run, secrets_file=secrets_file, fail_on=fail_on, as_json=as_json)


def _can_be_nowhere_else(folder: RunFolder, run: RunRecord) -> bool:
    """Whether all there is of a run is its folder: it was collected in one process, or nothing was sent from here."""
    if run.environment.name == "local":
        return True
    return not plans_of(folder.work, "collect") and "broker" not in (run.environment.options or {})


def _resume(
    folder: RunFolder, run: RunRecord, *, secrets_file: Path | None, fail_on: tuple[str, ...], as_json: bool
) -> int:
    """What `mst run --resume` does, in the places where the run was begun.

    Raises:
        UsageError: its eval is not on this machine.
    """
    if run.config_path is None or not Path(run.config_path).is_file():
        raise UsageError(
            f"{run.run_id}: its trials were still to be made, and its eval {run.config_path or ''} is not here: "
            f"mst run CONFIG --resume {folder.path}"
        )
    with folder.locked():
        # refused before anything is looked at, when somebody works on it
        where, grading = run.environment, run.grading
    name = "local" if grading is None else grading.runner.name
    asked = Asked(
        config=Path(run.config_path),
        variants=(),
        cases=(),
        tags=(),
        max_cases=None,
        sample=None,
        trials=None,
        seed=None,
        runner=where.name,
        options=options_again(where.name, where.options),
        grade_runner=name,
        grade_options={} if grading is None else options_again(name, grading.runner.options),
        no_grade=grading is None,
        resuming=str(folder.path),
        dry_run=False,
        fail_fast=False,
        secrets_file=secrets_file,
        output_dir=folder.path.parent.parent.parent,
        fail_on=fail_on,
        as_json=as_json,
    )
    return run_eval(asked)


def _attach(folder: RunFolder, *, secrets_file: Path | None, fail_on: tuple[str, ...], as_json: bool) -> int:
    cancel = Cancel()
    with folder.locked():
        run = folder.run()
        course = _course(folder, run, secrets_file=secrets_file, fail_on=fail_on, as_json=as_json)
        with cancelled_by_interrupt(cancel), cancelled_on_request(folder, cancel):
            code = go_through(course, run, cancel)
    if not cancel.is_set():
        publisher(folder, course.collecting.options)(folder)
    return code


def end_graded(folder: RunFolder, *, fail_on: tuple[str, ...], as_json: bool) -> int:
    """What the command that graded had still to do: report, latest, result, store; returns the exit code."""
    with folder.locked():
        clear_work(folder.work)
        code = finish(folder, fail_on=fail_on, as_json=as_json)
    grading = folder.run().grading
    if grading is not None:
        kind = lookup("runners", grading.runner.name)
        again = options_again(grading.runner.name, grading.runner.options)
        publisher(folder, parse_options(grading.runner.name, kind, again))(folder)
    return code


def _course(
    folder: RunFolder, run: RunRecord, *, secrets_file: Path | None, fail_on: tuple[str, ...], as_json: bool
) -> Course:
    """What the run was begun with.

    Raises:
        SecretMissing: it will be graded after collecting, with secrets that have no value here.
    """
    inputs, where = stored_inputs(run, folder), run.environment
    grading = None
    if run.grading is not None:
        runner = run.grading.runner
        grading = _place(inputs, "grade", runner.name, runner.options, secrets_file)
        # what was sent is followed without them; asking for them first spares a wait of hours
        if grading.lacking is not None and not (runner.dispatches or plans_of(folder.work, "grade")):
            raise grading.lacking
    return Course(
        folder=folder,
        inputs=inputs,
        collecting=_place(inputs, "collect", where.name, where.options, secrets_file),
        grading=grading,
        left=trials_left(folder, run, inputs).total(),
        secrets_file=secrets_file,
        fail_on=fail_on,
        as_json=as_json,
        attach=True,
    )


def _place(
    inputs: GradeInputs, work: Work, name: str, recorded: Mapping[str, Any] | None, secrets_file: Path | None
) -> Place:
    kind = lookup("runners", name)
    options = parse_options(name, kind, options_again(name, recorded))
    secrets: Mapping[str, str] = {}
    lacking = None
    try:
        secrets = secrets_for(inputs.plan, inputs.cases.equipped(), work, secrets_file, local=kind.reads_environment)
    except SecretMissing as missing:
        if secrets_file is not None:
            raise
        lacking = missing
    return Place(
        name=name,
        kind=kind,
        options=options,
        shards=getattr(options, "shards", 1),
        secrets=secrets,
        secret_names=names_needed(inputs.plan, inputs.cases.equipped(), work),
        lacking=lacking,
    )
