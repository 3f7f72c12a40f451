"""`mst attach` on what `mst run` began: collecting is followed to its end, then the run is graded as planned."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from mst.cli.cancelling import cancelled_on_request
from mst.cli.detaching import publisher
from mst.cli.grading import options_again, parse_options
from mst.cli.interrupts import cancelled_by_interrupt
from mst.cli.phases import Course, go_through, trials_left
from mst.cli.starting import Place
from mst.config.registry import lookup
from mst.config.secrets import names_needed, secrets_for
from mst.errors import SecretMissing, UsageError
from mst.model.run import RunRecord
from mst.model.shard import Work
from mst.runs.folder import RunFolder
from mst.runs.inputs import GradeInputs, stored_inputs
from mst.shards.contract import Cancel
from mst.shards.coordinate import plans_of


def attach_run(folder: RunFolder, *, secrets_file: Path | None, fail_on: tuple[str, ...], as_json: bool) -> int:
    """Go on with a run whose coordinator is gone; returns the exit code."""
    cancel = Cancel()
    with folder.locked():
        run = folder.run()
        course = _course(folder, run, secrets_file=secrets_file, fail_on=fail_on, as_json=as_json)
        with cancelled_by_interrupt(cancel), cancelled_on_request(folder, cancel):
            code = go_through(course, run, cancel)
    if not cancel.is_set():
        publisher(folder, course.collecting.options)(folder)
    return code


def _course(
    folder: RunFolder, run: RunRecord, *, secrets_file: Path | None, fail_on: tuple[str, ...], as_json: bool
) -> Course:
    """What the run was begun with.

    Raises:
        UsageError: it collected in a process that is gone.
        SecretMissing: it will be graded after collecting, with secrets that have no value here.
    """
    inputs, where = stored_inputs(run, folder), run.environment
    if where.name == "local" and run.phases.collect != "complete":
        raise UsageError(
            f"{run.run_id}: it was collected by a command that is gone; go on with: "
            f"mst run {run.config_path} --resume {folder.path}"
        )
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
