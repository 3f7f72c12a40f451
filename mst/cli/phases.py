"""The phases of a run, collecting and grading, and its end: for the command that began it and for one that goes on."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import click

from mst.cli.detaching import detaching
from mst.cli.ending import finish, typed
from mst.cli.grading import open_runner
from mst.cli.progress import Progress, say
from mst.cli.starting import Place
from mst.errors import GraderError, UsageError
from mst.model.run import Phases, RunRecord
from mst.model.shard import Work
from mst.runs.folder import RunFolder
from mst.runs.inputs import GradeInputs
from mst.shards.collect_run import CollectRequest, attach_collecting, collect_here, collect_in_shards, todo
from mst.shards.contract import Cancel, Runner, RunnerContext
from mst.shards.coordinate import clear_work
from mst.shards.regrade import attach_collected, grade_collected
from mst.shards.request import GradeRequest
from mst.shards.under_way import Graded, GradingContext


@dataclass(frozen=True, kw_only=True)
class Course:
    """A run on its way: what it is made of, where it collects and grades, and how the command ends.

    Attributes:
        inputs: plan, cases and files.
        grading: None when it is only collected.
        left: trials still to make when the command began.
        detach: send the shards and leave.
        attach: another command began it.
    """

    folder: RunFolder
    inputs: GradeInputs
    collecting: Place
    grading: Place | None
    left: int
    secrets_file: Path | None
    fail_on: tuple[str, ...]
    as_json: bool
    fail_fast: bool = False
    detach: bool = False
    attach: bool = False

    def collect_request(self, run: RunRecord) -> CollectRequest:
        """What to collect."""
        return replace(
            _request(self.folder, run, self.inputs),
            secrets=self.collecting.secrets,
            secret_names=self.collecting.secret_names,
            lacking=self.collecting.lacking,
            fail_fast=self.fail_fast,
        )

    @contextmanager
    def runner(self, place: Place, run: RunRecord, work: Work) -> Iterator[Runner]:
        """The runner of a phase, open while the block runs."""
        context = RunnerContext(
            run_id=run.run_id,
            eval_name=run.eval_name,
            work=work,
            scratch=self.folder.work,
            results_root=self.folder.path.parent.parent.parent,
            environment=dict(os.environ),
            secrets_file=self.secrets_file,
            say=partial(say, as_json=self.as_json),
        )
        with closing(open_runner(place.kind, place.options, context, work)) as runner:
            yield runner


def go_through(course: Course, run: RunRecord, cancel: Cancel) -> int:
    """Collect what is missing, grade it, and end; returns the exit code.

    Raises:
        Detached: the shards were sent, and nobody waits for them here.
    """
    run = _collected(course, run, _collect(course, run, cancel))
    if course.grading is None or cancel.is_set():
        return _end_ungraded(course.folder, run, interrupted=cancel.is_set())
    graded = _grade(course, run, course.grading, cancel)
    return finish(
        course.folder,
        fail_on=course.fail_on,
        as_json=course.as_json,
        interrupted=cancel.is_set(),
        refused=graded.refused,
    )


def trials_left(folder: RunFolder, run: RunRecord, inputs: GradeInputs) -> Counter[str]:
    """The trials still to make, by variant."""
    return Counter(key.variant for key in todo(_request(folder, run, inputs)))


def _request(folder: RunFolder, run: RunRecord, inputs: GradeInputs) -> CollectRequest:
    return CollectRequest(
        folder=folder,
        run=run,
        plan=inputs.plan,
        cases=inputs.cases,
        files=inputs.files,
        variants=_variants(inputs),
    )


def _variants(inputs: GradeInputs) -> list[str]:
    return [variant.name for variant in inputs.plan.variants]


def _collect(course: Course, run: RunRecord, cancel: Cancel) -> str | None:
    """Collect what is missing; returns why some of it could not be started, when nobody cancelled it."""
    place, request = course.collecting, course.collect_request(run)
    with Progress("collected", course.left, place.secrets, as_json=course.as_json) as progress:
        if place.name == "local":
            return _collect_here(request, progress, cancel)
        with course.runner(place, run, "collect") as opened:
            _record_runner(course, run, opened)
            runner = detaching(opened, course.folder, place.options) if course.detach else opened
            collect = attach_collecting if course.attach else collect_in_shards
            outcomes = collect(request, runner, place.shards, progress, cancel)
            details = [outcome.detail for outcome in outcomes if not outcome.ok and outcome.detail]
            return details[0].splitlines()[0][:200] if details and not cancel.is_set() else None


def _collect_here(request: CollectRequest, progress: Progress, cancel: Cancel) -> str | None:
    stopped = collect_here(replace(request, on_trial=progress.collected), cancel)
    if stopped is not None:
        progress.note(stopped)
    return stopped


def _record_runner(course: Course, run: RunRecord, runner: Runner) -> None:
    """Say in `run.json` what the runner made of its options: the image behind a name; where a fleet is, for `attach`.

    Of a run that several runners collected it says the options of the one that began it; each trial tells its place.
    """
    if run.environment.name == course.collecting.name:
        environment = run.environment.model_copy(update={"options": runner.recorded_options()})
        course.folder.write_run(run.model_copy(update={"environment": environment}))


def _collected(course: Course, run: RunRecord, stopped: str | None) -> RunRecord:
    """Say in `run.json` how far collecting came, and why no further."""
    whole = next(todo(course.collect_request(run)), None) is None
    phases = Phases(collect="complete" if whole else "partial", grade=run.phases.grade)
    changes = {"phases": phases, "stopped": None if whole else stopped}
    run = course.folder.run().model_copy(update=changes)
    course.folder.write_run(run)
    return run


def _end_ungraded(folder: RunFolder, run: RunRecord, *, interrupted: bool) -> int:
    clear_work(folder.work)
    click.echo(f"collected {run.run_id} ({folder.path})")
    if run.phases.collect != "complete":
        say(f"partial; finish it with: {typed('run', run.config_path or 'CONFIG', '--resume', folder.path)}")
        return 130 if interrupted else 3
    say(f"grade it with: {typed('grade', folder.path)}")
    return 130 if interrupted else 0


def _grade(course: Course, run: RunRecord, place: Place, cancel: Cancel) -> Graded:
    request = GradeRequest(
        source=course.folder,
        inputs=course.inputs,
        runner_name=place.name,
        shards=place.shards,
        secrets=place.secrets,
        secret_names=place.secret_names,
        lacking=place.lacking,
        variants=_variants(course.inputs),
        selection=run.selection,
    )
    with Progress("graded", None, place.secrets, as_json=course.as_json) as progress:
        grade = attach_collected if course.attach else grade_collected
        try:
            with course.runner(place, run, "grade") as runner:
                context = GradingContext(runner=runner, events=progress, cancel=cancel, told=progress.graded, say=say)
                return grade(request, run, context)
        except GraderError as error:
            raise UsageError(
                f"preflight: {error}\nthe trials are kept; grade them with: {typed('grade', course.folder.path)}"
            ) from error
