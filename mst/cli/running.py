"""From what the user asked to a collected and graded run."""

from __future__ import annotations

import json
import os
import secrets as randomness
from collections import Counter
from contextlib import closing
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any

import click

from mst.cli.cancelling import cancelled_on_request
from mst.cli.ending import finish
from mst.cli.grading import open_runner
from mst.cli.interrupts import cancelled_by_interrupt
from mst.cli.preflight import estimate_line, plan_document
from mst.cli.progress import Progress
from mst.cli.results import check_results, located, pushed
from mst.cli.starting import Asked, Place, estimated, places, planned, probed, selection_for
from mst.config.layers import eval_name
from mst.config.resolve import ResolvedEval, load_eval
from mst.errors import GraderError, MstError, UsageError
from mst.model.run import Phases, RunRecord
from mst.model.shard import Work
from mst.model.trial import TrialRecord
from mst.runs.extend import extended
from mst.runs.folder import RunFolder
from mst.runs.inputs import GradeInputs, write_inputs
from mst.runs.locate import new_run
from mst.runs.record import cases_identity, environment, new_record
from mst.shards.collect_run import CollectRequest, collect_here, collect_in_shards, todo
from mst.shards.contract import Cancel, RunnerContext
from mst.shards.coordinate import clear_work, plans_of
from mst.shards.regrade import Graded, Hooks, grade_collected
from mst.shards.request import GradeRequest
from mst.shards.spend import grading_spent, trial_spent


def run_eval(asked: Asked) -> int:
    """Collect, grade unless asked not to, and end; returns the exit code."""
    resumed = located(asked.resuming, asked.output_dir, asked.results) if asked.resuming else None
    selection = selection_for(asked, resumed, eval_name(asked.config) if asked.only else "")
    with load_eval(asked.config, selection=selection) as resolved:
        for warning in resolved.warnings:
            click.echo(f"mst: {warning}", err=True)
        again = None if resumed is None else _again(asked, resumed, resolved)
        collecting, grading = places(asked, resolved)
        left = planned(resolved) if again is None or resumed is None else _left(resumed, again, resolved)
        found, at_once = estimated(asked, resolved, left), collecting.at_once(resolved.plan.concurrency)
        if asked.dry_run:
            click.echo(json.dumps(plan_document(resolved, found, at_once=at_once), indent=2))
            return 0
        if left.total():
            probed(asked, resolved, collecting)
            _say(estimate_line(found, at_once=at_once))
        check_results(asked.results, resolved.plan.name)
        folder = resumed or new_run(asked.output_dir, resolved.plan.name, datetime.now(UTC))
        with folder.locked():
            code = _run(asked, resolved, folder, Start(collecting, grading, again, left.total()))
            pushed(folder, asked.results, interrupted=code == 130)
            return code


def _say(text: str) -> None:
    click.echo(f"mst: {text}", err=True)


@dataclass(frozen=True)
class Start:
    """Where a run collects and grades, its record if there is one already, and how many trials are still to make."""

    collecting: Place
    grading: Place
    again: RunRecord | None
    left: int


def _run(asked: Asked, resolved: ResolvedEval, folder: RunFolder, start: Start) -> int:
    cancel = Cancel()
    again, collecting = start.again, start.collecting
    run = _begin(asked, resolved, folder, collecting) if again is None else _go_on(folder, again, resolved)
    with cancelled_by_interrupt(cancel), cancelled_on_request(folder, cancel):
        try:
            stopped = _collect(asked, resolved, folder, run, start, cancel)
        except MstError:
            if again is None:
                _forget_unbegun(folder)
            raise
        run = _collected(folder, run, resolved, stopped)
        if asked.no_grade or cancel.is_set():
            return _end_ungraded(folder, run, interrupted=cancel.is_set())
        graded = _grade(asked, resolved, folder, run, start.grading, cancel)
    return finish(
        folder, fail_on=asked.fail_on, as_json=asked.as_json, interrupted=cancel.is_set(), refused=graded.refused
    )


def _forget_unbegun(folder: RunFolder) -> None:
    """Remove a new run of which nothing was sent or collected: a wrong set-up leaves no run."""
    if not plans_of(folder.work, "collect") and not folder.has_trials():
        clear_work(folder.path)


def _begin(asked: Asked, resolved: ResolvedEval, folder: RunFolder, place: Place) -> RunRecord:
    recorded = place.options.model_dump(mode="json", exclude_defaults=True)
    run = new_record(
        folder.run_id,
        resolved.plan,
        cases=resolved.cases,
        datasets=resolved.datasets,
        seed=asked.seed if asked.seed is not None else randomness.randbelow(2**31),
        environment=environment(place.name, place.shards, recorded),
        selection=resolved.selection,
        config_path=asked.config.resolve(),
    )
    write_inputs(folder, _inputs(resolved))
    folder.write_run(run)
    return run


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
        raise UsageError(
            f"{run.run_id}: the {what} changed since this run was started, so it cannot be resumed; start a new run, "
            "or say --extend too if there are only more trials, cases or variants"
        )
    return run


def _go_on(folder: RunFolder, run: RunRecord, resolved: ResolvedEval) -> RunRecord:
    """Write what an extension changed. The record goes first: who dies after it is resumed like any other."""
    before = folder.run()
    if run != before:
        folder.write_run(run)
        if run.looks != before.looks:
            _say(f"this makes look {(run.looks or 0) + 1} at the data of {run.run_id}, and its report will say so")
    if folder.cases().hash != resolved.cases.hash:
        write_inputs(folder, _inputs(resolved))
    return run


def _left(folder: RunFolder, run: RunRecord, resolved: ResolvedEval) -> Counter[str]:
    """The trials still to make, by variant."""
    return Counter(key.variant for key in todo(_request(folder, run, resolved)))


def _inputs(resolved: ResolvedEval) -> GradeInputs:
    return GradeInputs(
        plan=resolved.plan, cases=resolved.cases, datasets=resolved.datasets, files=resolved.files, notes=()
    )


def _collect(
    asked: Asked, resolved: ResolvedEval, folder: RunFolder, run: RunRecord, start: Start, cancel: Cancel
) -> str | None:
    """Collect what is missing; returns why some of it could not be started, when nobody cancelled it."""
    place = start.collecting
    request = replace(
        _request(folder, run, resolved),
        secrets=place.secrets,
        secret_names=place.secret_names,
        fail_fast=asked.fail_fast,
    )
    with Progress("collected", start.left, place.secrets, as_json=asked.as_json) as progress:
        if place.name == "local":

            def told(record: TrialRecord) -> None:
                _, usd = trial_spent([record])
                progress.one_more(passed=None, problem=record.infrastructure_error, cost_usd=usd)

            stopped = collect_here(replace(request, on_trial=told), cancel)
            if stopped is not None:
                progress.note(stopped)
            return stopped
        with closing(
            open_runner(place.kind, place.options, _context(asked, folder, run, "collect"), "collect")
        ) as runner:
            outcomes = collect_in_shards(request, runner, place.shards, progress, cancel)
            details = [outcome.detail for outcome in outcomes if not outcome.ok and outcome.detail]
            return details[0].splitlines()[0][:200] if details and not cancel.is_set() else None


def _request(folder: RunFolder, run: RunRecord, resolved: ResolvedEval) -> CollectRequest:
    return CollectRequest(
        folder=folder,
        run=run,
        plan=resolved.plan,
        cases=resolved.cases,
        files=resolved.files,
        variants=[variant.name for variant in resolved.plan.variants],
    )


def _context(asked: Asked, folder: RunFolder, run: RunRecord, work: Work) -> RunnerContext:
    return RunnerContext(
        run_id=run.run_id,
        eval_name=run.eval_name,
        work=work,
        scratch=folder.work,
        results_root=folder.path.parent.parent.parent,
        environment=dict(os.environ),
        secrets_file=asked.secrets_file,
    )


def _collected(folder: RunFolder, run: RunRecord, resolved: ResolvedEval, stopped: str | None) -> RunRecord:
    """Say in `run.json` how far collecting came, and why no further."""
    whole = next(todo(_request(folder, run, resolved)), None) is None
    phases = Phases(collect="complete" if whole else "partial", grade=run.phases.grade)
    run = run.model_copy(update={"phases": phases, "stopped": None if whole else stopped})
    folder.write_run(run)
    return run


def _end_ungraded(folder: RunFolder, run: RunRecord, *, interrupted: bool) -> int:
    clear_work(folder.work)
    click.echo(f"collected {run.run_id} ({folder.path})")
    if run.phases.collect != "complete":
        click.echo(f"mst: partial; finish it with: mst run {run.config_path} --resume {folder.path}", err=True)
        return 130 if interrupted else 3
    click.echo(f"mst: grade it with: mst grade {folder.path}", err=True)
    return 130 if interrupted else 0


def _grade(
    asked: Asked, resolved: ResolvedEval, folder: RunFolder, run: RunRecord, place: Place, cancel: Cancel
) -> Graded:
    request = GradeRequest(
        source=folder,
        inputs=_inputs(resolved),
        runner_name=place.name,
        shards=place.shards,
        secrets=place.secrets,
        secret_names=place.secret_names,
        variants=[variant.name for variant in resolved.plan.variants],
        selection=resolved.selection,
    )
    with Progress("graded", None, place.secrets) as progress:

        async def told(grading: Any) -> None:
            _, usd = grading_spent(grading)
            progress.one_more(passed=getattr(grading, "passed", None), problem=bool(grading.errors), cost_usd=usd)

        try:
            with closing(
                open_runner(place.kind, place.options, _context(asked, folder, run, "grade"), "grade")
            ) as runner:
                return grade_collected(request, run, runner, progress, cancel, Hooks(told=told, say=_say))
        except GraderError as error:
            raise UsageError(
                f"preflight: {error}\nthe trials are kept; grade them with 'mst grade {folder.path}'"
            ) from error
