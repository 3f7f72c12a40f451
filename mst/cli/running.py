"""From what the user asked to a collected and graded run."""

from __future__ import annotations

import json
import os
import secrets as randomness
from collections.abc import Mapping
from contextlib import closing
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import click

from mst.cli.cancelling import cancelled_on_request
from mst.cli.ending import finish
from mst.cli.grading import open_runner, parse_options
from mst.cli.interrupts import cancelled_by_interrupt
from mst.cli.progress import Progress
from mst.cli.results import check_results, located, pushed
from mst.config.registry import lookup
from mst.config.resolve import ResolvedEval, load_eval
from mst.config.secrets import names_needed, secrets_for
from mst.errors import GraderError, MstError, UsageError
from mst.model.run import Phases, RunRecord, Selection
from mst.model.shard import Work
from mst.model.trial import TrialRecord
from mst.runs.folder import RunFolder
from mst.runs.inputs import GradeInputs, write_inputs
from mst.runs.locate import new_run
from mst.runs.record import environment, new_record
from mst.shards.collect_run import CollectRequest, collect_here, collect_in_shards, preflight, todo
from mst.shards.contract import Cancel, RunnerContext
from mst.shards.coordinate import clear_work, plans_of, refuse_too_many
from mst.shards.regrade import Graded, Hooks, grade_collected
from mst.shards.request import GradeRequest


@dataclass(frozen=True, kw_only=True)
class Asked:
    """What the command line said."""

    config: Path
    variants: tuple[str, ...]
    cases: tuple[str, ...]
    tags: tuple[str, ...]
    max_cases: int | None
    sample: int | None
    trials: int | None
    seed: int | None
    runner: str
    options: Mapping[str, str]
    grade_runner: str
    grade_options: Mapping[str, str]
    no_grade: bool
    resuming: str | None
    dry_run: bool
    fail_fast: bool
    secrets_file: Path | None
    output_dir: Path
    results: str | None = None
    fail_on: tuple[str, ...]
    as_json: bool

    def selection(self) -> Selection | None:
        """How the run is narrowed; None when it is not."""
        selection = Selection(
            variants=list(self.variants) or None,
            cases=list(self.cases) or None,
            filter_tags=list(self.tags) or None,
            max_cases=self.max_cases,
            sample=self.sample,
            trials=self.trials,
            seed=self.seed if self.sample is not None else None,
        )
        return selection if selection != Selection() else None


@dataclass(frozen=True, kw_only=True)
class Place:
    """An opened place for one phase."""

    name: str
    kind: Any
    options: Any
    shards: int
    secrets: Mapping[str, str]
    secret_names: list[str]


def run_eval(asked: Asked) -> int:
    """Collect, grade unless asked not to, and end; returns the exit code."""
    resumed = located(asked.resuming, asked.output_dir, asked.results) if asked.resuming else None
    selection = resumed.run().selection if resumed is not None else asked.selection()
    with load_eval(asked.config, selection=selection) as resolved:
        for warning in resolved.warnings:
            click.echo(f"mst: {warning}", err=True)
        collecting = _place(asked.runner, asked.options, "collect", resolved, asked)
        grading = _place(asked.grade_runner, asked.grade_options, "grade", resolved, asked)
        if asked.runner == "local":
            preflight(resolved.plan, [variant.name for variant in resolved.plan.variants])
        if asked.dry_run:
            _say_plan(resolved)
            return 0
        check_results(asked.results, resolved.plan.name)
        folder = resumed or new_run(asked.output_dir, resolved.plan.name, datetime.now(UTC))
        with folder.locked():
            code = _run(asked, resolved, folder, collecting, grading, fresh=resumed is None)
            pushed(folder, asked.results, interrupted=code == 130)
            return code


def _place(name: str, given: Mapping[str, str], work: Work, resolved: ResolvedEval, asked: Asked) -> Place:
    kind = lookup("runners", name)
    options = parse_options(name, kind, given)
    shards = getattr(options, "shards", 1)
    refuse_too_many(name, shards, kind.max_shards)
    needed = work == "collect" or not asked.no_grade
    plan, cases = resolved.plan, resolved.cases
    return Place(
        name=name,
        kind=kind,
        options=options,
        shards=shards,
        secrets=secrets_for(plan, cases, work, asked.secrets_file, local=kind.reads_environment) if needed else {},
        secret_names=names_needed(plan, cases, work),
    )


def _say(text: str) -> None:
    click.echo(f"mst: {text}", err=True)


def _say_plan(resolved: ResolvedEval) -> None:
    plan = resolved.plan
    trials = sum(plan.trials_of(case) for case in resolved.cases) * len(plan.variants)
    document = {
        "name": plan.name,
        "datasets": [dataset.to_dict() for dataset in resolved.datasets],
        "variants": [variant.name for variant in plan.variants],
        "baseline": plan.baseline,
        "cases": len(resolved.cases),
        "trials": trials,
    }
    click.echo(json.dumps(document, indent=2))


def _run(
    asked: Asked, resolved: ResolvedEval, folder: RunFolder, collecting: Place, grading: Place, *, fresh: bool
) -> int:
    cancel = Cancel()
    run = _begin(asked, resolved, folder, collecting) if fresh else _again(folder, resolved)
    with cancelled_by_interrupt(cancel), cancelled_on_request(folder, cancel):
        try:
            _collect(asked, resolved, folder, run, collecting, cancel)
        except MstError:
            if fresh:
                _forget_unbegun(folder)
            raise
        run = _collected(folder, run, resolved)
        if asked.no_grade or cancel.is_set():
            return _end_ungraded(folder, run, interrupted=cancel.is_set())
        graded = _grade(asked, resolved, folder, run, grading, cancel)
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


def _again(folder: RunFolder, resolved: ResolvedEval) -> RunRecord:
    run = folder.run()
    if run.graded_from is not None:
        raise UsageError(f"{run.run_id} is a regrade; collect with --resume {run.graded_from}")
    if run.content_hash != resolved.plan.content_hash:
        raise UsageError(
            f"{run.run_id}: the eval changed since this run was started, so it cannot be resumed; start a new run"
        )
    return run


def _inputs(resolved: ResolvedEval) -> GradeInputs:
    return GradeInputs(
        plan=resolved.plan, cases=resolved.cases, datasets=resolved.datasets, files=resolved.files, notes=()
    )


def _collect(
    asked: Asked, resolved: ResolvedEval, folder: RunFolder, run: RunRecord, place: Place, cancel: Cancel
) -> None:
    request = CollectRequest(
        folder=folder,
        run=run,
        plan=resolved.plan,
        cases=resolved.cases,
        files=resolved.files,
        variants=[variant.name for variant in resolved.plan.variants],
        secrets=place.secrets,
        secret_names=place.secret_names,
        fail_fast=asked.fail_fast,
    )
    planned = sum(1 for _ in todo(request))
    with Progress("collected", planned, place.secrets, as_json=asked.as_json) as progress:
        if place.name == "local":

            def told(record: TrialRecord) -> None:
                progress.one_more(passed=None, problem=record.infrastructure_error)

            from dataclasses import replace

            collect_here(replace(request, on_trial=told), cancel)
            return
        with closing(
            open_runner(place.kind, place.options, _context(asked, folder, run, "collect"), "collect")
        ) as runner:
            collect_in_shards(request, runner, place.shards, progress, cancel)


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


def _collected(folder: RunFolder, run: RunRecord, resolved: ResolvedEval) -> RunRecord:
    """Say in `run.json` how far collecting came."""
    request = CollectRequest(
        folder=folder,
        run=run,
        plan=resolved.plan,
        cases=resolved.cases,
        files=resolved.files,
        variants=[variant.name for variant in resolved.plan.variants],
    )
    whole = next(todo(request), None) is None
    run = run.model_copy(update={"phases": Phases(collect="complete" if whole else "partial", grade=run.phases.grade)})
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
            progress.one_more(passed=getattr(grading, "passed", None), problem=bool(grading.errors))

        try:
            with closing(
                open_runner(place.kind, place.options, _context(asked, folder, run, "grade"), "grade")
            ) as runner:
                return grade_collected(request, run, runner, progress, cancel, Hooks(told=told, say=_say))
        except GraderError as error:
            raise UsageError(
                f"preflight: {error}\nthe trials are kept; grade them with 'mst grade {folder.path}'"
            ) from error
