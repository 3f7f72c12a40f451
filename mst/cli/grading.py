"""From what the user asked to a grading: find inputs, open the runner, follow progress, end."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Literal

import click
from pydantic import ValidationError

from mst.cli.cancelling import cancelled_on_request
from mst.cli.detaching import detaching, publisher, refuse_alone, say_detached, shared_store
from mst.cli.ending import finish
from mst.cli.interrupts import cancelled_by_interrupt
from mst.cli.narrowing import narrowed, reusable
from mst.cli.progress import Progress, say
from mst.cli.results import check_results, claiming, pushed
from mst.config.faults import in_words
from mst.config.registry import lookup
from mst.config.secrets import names_needed, secrets_for
from mst.errors import GraderError, SecretMissing, UsageError
from mst.model.keys import short_id
from mst.model.shard import Work
from mst.process.scratch import scratch_prefix
from mst.runs.authors import read_distrusted
from mst.runs.folder import RunFolder
from mst.runs.inputs import GradeInputs, grade_inputs
from mst.runs.locate import is_under_way, lacks_end, regrades_of
from mst.shards.contract import Cancel, Runner, RunnerContext
from mst.shards.coordinate import refuse_too_many
from mst.shards.detached import Detached
from mst.shards.regrade import attach, grade, resume
from mst.shards.request import GradeRequest
from mst.shards.under_way import Graded, GradingContext

Mode = Literal["new", "resume", "attach"]


@dataclass(frozen=True, kw_only=True)
class Asked:
    """What the command line said."""

    config: Path | None
    runner: str
    options: Mapping[str, str]
    secrets_file: Path | None
    mode: Mode
    results: str | None = None
    only: Sequence[str] = ()
    reuse: RunFolder | None = None
    detach: bool = False
    distrust: Sequence[str] = ()


def grade_run(folder: RunFolder, asked: Asked, *, fail_on: Sequence[str], as_json: bool) -> int:
    """Grade, resume or attach; returns the exit code.

    Args:
        folder: the run to grade; for `resume` and `attach` the regrade.
    """
    source = folder.source
    kind = lookup("runners", asked.runner)
    options = parse_options(asked.runner, kind, asked.options)
    shards = getattr(options, "shards", 1)
    refuse_too_many(asked.runner, shards, kind.max_shards)
    if asked.detach:
        refuse_alone(kind, options)
    with tempfile.TemporaryDirectory(prefix=scratch_prefix("inputs")) as scratch:
        inputs, selection = narrowed(
            folder, grade_inputs(source.run(), source, asked.config, Path(scratch)), asked, Path(scratch)
        )
        for note in inputs.notes:
            click.echo(f"mst: {note}", err=True)
        check_results(asked.results, inputs.plan.name)
        secrets, lacking = _secrets(inputs, asked, local=kind.reads_environment)
        request = GradeRequest(
            source=source,
            inputs=inputs,
            runner_name=asked.runner,
            shards=shards,
            secrets=secrets,
            secret_names=names_needed(inputs.plan, inputs.cases.equipped(), "grade"),
            lacking=lacking,
            variants=[variant.name for variant in inputs.plan.variants],
            selection=selection,
            distrusted=read_distrusted(asked.distrust),
            reused=reusable(folder, asked),
            claim=claiming(asked.results or (shared_store(options) if asked.detach else None)),
        )
        context = RunnerContext(
            run_id=folder.run_id,
            eval_name=inputs.plan.name,
            work="grade",
            scratch=Path(scratch),
            results_root=source.path.parent.parent.parent,
            environment=dict(os.environ),
            secrets_file=asked.secrets_file,
            say=partial(say, as_json=as_json),
        )
        cancel = Cancel()
        with closing(open_runner(kind, options, context, "grade")) as opened, cancelled_by_interrupt(cancel):
            runner = detaching(opened, source, options) if asked.detach else opened
            try:
                graded = _grade(request, folder, runner, cancel, asked.mode, as_json=as_json)
            except Detached as left:
                say_detached(left, options)
                return 0
    if graded is None:
        click.echo(f"mst: {folder.run_id}: every grader has given its verdict; nothing to do", err=True)
        return 0
    ending = finish(
        graded.folder, fail_on=fail_on, as_json=as_json, interrupted=cancel.is_set(), refused=graded.refused
    )
    pushed(graded.folder, asked.results, interrupted=cancel.is_set())
    if asked.mode == "attach" and asked.results is None and not cancel.is_set():
        publisher(graded.folder, options)(graded.folder)
    return ending


def _secrets(inputs: GradeInputs, asked: Asked, *, local: bool) -> tuple[Mapping[str, str], SecretMissing | None]:
    """Values of secrets; when attaching without a file, the error for what may turn out to be needed instead."""
    try:
        return secrets_for(inputs.plan, inputs.cases.equipped(), "grade", asked.secrets_file, local=local), None
    except SecretMissing as missing:
        if asked.mode != "attach" or asked.secrets_file is not None:
            raise
        return {}, missing


def _grade(
    request: GradeRequest, folder: RunFolder, runner: Runner, cancel: Cancel, mode: Mode, *, as_json: bool
) -> Graded | None:
    with Progress("graded", None, request.secrets, as_json=as_json) as progress:
        context = GradingContext(
            runner=runner,
            events=progress,
            cancel=cancel,
            told=progress.graded,
            watching=lambda found: cancelled_on_request(found, cancel),
            say=say,
        )
        try:
            match mode:
                case "new":
                    return grade(request, context)
                case "resume":
                    return resume(request, folder, context)
                case "attach":
                    return attach(request, folder, context)
        except GraderError as error:
            raise UsageError(f"preflight: {error}") from error


def under_way(folder: RunFolder) -> RunFolder:
    """What a reference means to somebody who goes on with it or stops it.

    A regrade is itself, and so is a run that has not come to its end; else it is the only open regrade of the run.

    Raises:
        UsageError: there is none, or several; lists them.
    """
    run = folder.run()
    if run.graded_from is not None or is_under_way(run) or lacks_end(folder):
        return folder
    unfinished = [one for one in regrades_of(folder) if one.run().phases.grade != "complete" or lacks_end(one)]
    if len(unfinished) == 1:
        return unfinished[0]
    if not unfinished:
        shown = f"'mst show {short_id(run.run_id)}' shows its result, " if run.phases.grade == "complete" else ""
        raise UsageError(f"{folder.run_id}: no open regrade; {shown}'mst grade {folder.run_id}' makes one")
    raise UsageError(f"{folder.run_id}: several open regrades: {', '.join(found.run_id for found in unfinished)}")


def parse_options(name: str, kind: Any, given: Mapping[str, str]) -> Any:
    """A runner's options, checked.

    Raises:
        UsageError: naming the option and what is wrong with it.
    """
    try:
        return kind.Options.model_validate(dict(given))
    except ValidationError as error:
        fault = error.errors(include_url=False)[0]
        key = ".".join(str(part) for part in fault["loc"])
        if fault["type"] == "extra_forbidden":
            known = ", ".join(known_options(name))
            raise UsageError(f"--runner-option {key}: the {name} runner has no such option; it has {known}") from error
        raise UsageError(f"--runner-option {key}: {in_words(fault)}") from error


def options_again(name: str, recorded: Mapping[str, Any] | None) -> dict[str, str]:
    """Recorded options as they are given: without what a runner recorded besides, such as the ID of an image."""
    known = known_options(name)
    return {key: str(value) for key, value in (recorded or {}).items() if key in known}


def known_options(name: str) -> list[str]:
    """The options that a runner has, as they are given."""
    fields = lookup("runners", name).Options.model_fields
    return [field.alias or field_name for field_name, field in fields.items()]


def open_runner(kind: Any, options: Any, context: RunnerContext, work: Work) -> Runner:
    """Open a runner and see that it can do this work, before any shard runs.

    Raises:
        UsageError: it can not.
    """
    runner: Runner = kind.open(options, context)
    if work not in runner.work:
        runner.close()
        raise UsageError(f"the runner cannot {work}; it can {', '.join(sorted(runner.work))}")
    return runner
