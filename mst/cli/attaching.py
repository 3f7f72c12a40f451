"""`mst attach` on what `mst run` began: collecting is followed to its end, then the run is graded as planned."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mst.cli.cancelling import cancelled_on_request
from mst.cli.detaching import lacks_push, publisher
from mst.cli.ending import finish, typed
from mst.cli.grading import parse_options, under_way
from mst.cli.interrupts import cancelled_by_interrupt
from mst.cli.moved import options_now
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
from mst.runs.locate import gradings_in, lacks_end
from mst.shards.contract import Cancel
from mst.shards.coordinate import clear_work, plans_of


@dataclass(frozen=True, kw_only=True)
class Again:
    """What the command line of `mst attach` said.

    Attributes:
        options: of runners, in place of those recorded.
    """

    options: Mapping[str, str]
    secrets_file: Path | None
    fail_on: tuple[str, ...]
    as_json: bool


def attach_run(folder: RunFolder, again: Again) -> int:
    """Go on with a run whose coordinator is gone; returns the exit code."""
    run = folder.run()
    try:
        if run.phases.collect != "complete" and _can_be_nowhere_else(folder, run):
            raise NothingSent(run.run_id)
        return _attach(folder, again)
    except NothingSent:
        return _resume(folder, run, again)


def _can_be_nowhere_else(folder: RunFolder, run: RunRecord) -> bool:
    """Whether all there is of a run is its folder: it was collected in one process, or nothing was sent from here."""
    if run.environment.name == "local":
        return True
    return not plans_of(folder.work, "collect") and "broker" not in (run.environment.options or {})


def _resume(folder: RunFolder, run: RunRecord, again: Again) -> int:
    """What `mst run --resume` does, in the places where the run was begun.

    Raises:
        UsageError: its eval is not on this machine.
    """
    if run.config_path is None or not Path(run.config_path).is_file():
        raise UsageError(
            f"{run.run_id}: its trials were still to be made, and its eval {run.config_path or ''} is not here: "
            + typed("run", "CONFIG", "--resume", folder.path)
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
        options=options_now(where.name, where.options, again.options),
        grade_runner=name,
        grade_options={} if grading is None else options_now(name, grading.runner.options, again.options),
        no_grade=grading is None,
        resuming=str(folder.path),
        dry_run=False,
        fail_fast=False,
        secrets_file=again.secrets_file,
        output_dir=folder.path.parent.parent.parent,
        fail_on=again.fail_on,
        as_json=again.as_json,
    )
    return run_eval(asked)


def _attach(folder: RunFolder, again: Again) -> int:
    cancel = Cancel()
    with folder.locked():
        run = folder.run()
        course = _course(folder, run, again)
        with cancelled_by_interrupt(cancel), cancelled_on_request(folder, cancel):
            code = go_through(course, run, cancel)
    if not cancel.is_set():
        publisher(folder, course.collecting.options)(folder)
    return code


def to_attach(found: RunFolder, again: Again) -> RunFolder:
    """What a reference means to somebody who goes on: what is under way, or else what is only not pushed yet.

    Raises:
        UsageError: there is neither.
        StoreError: a store that may lack something does not answer.
    """
    try:
        return under_way(found)
    except UsageError:
        owed = [one for one in gradings_in(found.path.parent, found.run_id) if lacks_only_end(one, again)]
        if len(owed) != 1:
            raise
        return owed[0]


def lacks_only_end(folder: RunFolder, again: Again) -> bool:
    """Whether everything is graded, but who did that was killed before the report was there, or while pushing."""
    return lacks_end(folder) or lacks_push(folder, _options_of_sender(folder.run(), again, told=False))


def end_graded(folder: RunFolder, again: Again) -> int:
    """What the command that graded had still to do: report, latest, result, store; returns the exit code."""
    from mst.fleet.embedded_fleet import remove_left_dispatches

    with folder.locked():
        clear_work(folder.work)
        remove_left_dispatches(folder.path.parent.parent.parent)
        code = finish(folder, fail_on=again.fail_on, as_json=again.as_json)
    publisher(folder, _options_of_sender(folder.run(), again))(folder)
    return code


def _options_of_sender(run: RunRecord, again: Again, *, told: bool = True) -> Any:
    """Options of the runner that sent a run out, if one did: a run is sent to be collected, a regrade to be graded."""
    grading = run.grading.runner if run.grading is not None else None
    where = run.environment if run.graded_from is None or grading is None else grading
    options = options_now(where.name, where.options, again.options, told=told)
    return parse_options(where.name, lookup("runners", where.name), options)


def _course(folder: RunFolder, run: RunRecord, again: Again) -> Course:
    """What the run was begun with.

    Raises:
        SecretMissing: it will be graded after collecting, with secrets that have no value here.
    """
    inputs, where = stored_inputs(run, folder), run.environment
    grading = None
    if run.grading is not None:
        runner = run.grading.runner
        grading = _place(inputs, "grade", runner.name, runner.options, again)
        # what was sent is followed without them; asking for them first spares a wait of hours
        if grading.lacking is not None and not (runner.dispatches or plans_of(folder.work, "grade")):
            raise grading.lacking
    return Course(
        folder=folder,
        inputs=inputs,
        collecting=_place(inputs, "collect", where.name, where.options, again),
        grading=grading,
        left=trials_left(folder, run, inputs).total(),
        secrets_file=again.secrets_file,
        fail_on=again.fail_on,
        as_json=again.as_json,
        attach=True,
    )


def _place(inputs: GradeInputs, work: Work, name: str, recorded: Mapping[str, Any] | None, again: Again) -> Place:
    kind = lookup("runners", name)
    options = parse_options(name, kind, options_now(name, recorded, again.options))
    secrets: Mapping[str, str] = {}
    lacking = None
    try:
        cases = inputs.cases.equipped()
        secrets = secrets_for(inputs.plan, cases, work, again.secrets_file, local=kind.reads_environment)
    except SecretMissing as missing:
        if again.secrets_file is not None:
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
