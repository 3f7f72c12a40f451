"""What `mst run` was asked for, and what it starts from: everything is looked at before anything runs."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click

from mst.cli.grading import parse_options
from mst.cli.preflight import HERE, Faults, checks_faults, client_faults, grader_faults, has_agents, probe
from mst.config.registry import lookup
from mst.config.resolve import ResolvedEval
from mst.config.secrets import names_needed, secrets_for
from mst.errors import SecretMissing, UsageError
from mst.model.keys import short_id
from mst.model.run import Selection
from mst.model.shard import Work
from mst.runs.again import cases_in, last_graded
from mst.runs.estimate import Estimate, estimate
from mst.runs.extend import merged_selection
from mst.runs.folder import RunFolder
from mst.shards.coordinate import refuse_too_many

UNASKED = (
    "no agent is asked a question first, since only the machines of --runner {runner} have their programs; each shard "
    "looks for programs and keys before its first trial"
)


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
    only: tuple[str, ...] = ()
    runner: str
    options: Mapping[str, str]
    grade_runner: str
    grade_options: Mapping[str, str]
    no_grade: bool
    resuming: str | None
    extend: bool = False
    dry_run: bool
    detach: bool = False
    no_probe: bool = False
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
    """A place for one phase, with the values of the secrets that it needs.

    Attributes:
        lacking: the error for secrets without a value, where they may turn out not to be needed.
    """

    name: str
    kind: Any
    options: Any
    shards: int
    secrets: Mapping[str, str]
    secret_names: list[str]
    lacking: SecretMissing | None = None

    def at_once(self, concurrency: int) -> int:
        """How many trials it makes at a time, as far as can be known here."""
        parallel = getattr(self.options, "max_parallel", None) or self.shards
        return concurrency * min(self.shards, parallel)


def selection_for(asked: Asked, resumed: RunFolder | None, eval_name: str) -> Selection | None:
    """How the run is narrowed.

    Raises:
        UsageError: options that contradict each other; `--only` without a run to look at.
    """
    said = asked.selection()
    if asked.extend:
        if resumed is None:
            raise UsageError("--extend adds to a run: name it with --resume RUN")
        if asked.only:
            raise UsageError("--only makes a run of its own; leave out --extend and --resume")
        return merged_selection(resumed.run().selection, said)
    if resumed is not None:
        if said is not None or asked.only:
            raise UsageError(
                "--resume goes on with the run as it was narrowed; to add trials, cases or variants say --extend too"
            )
        return resumed.run().selection
    if not asked.only:
        return said
    last = last_graded(eval_name, asked.output_dir)
    if last is None:
        raise UsageError(f"--only: no graded run of {eval_name} under {asked.output_dir}; run it once without --only")
    wanted = cases_in(last, asked.only)
    if asked.cases:
        wanted = [case_id for case_id in wanted if case_id in asked.cases]
        if not wanted:
            raise UsageError(f"--only: none of the chosen cases is among those of run {short_id(last.run_id)}")
    return (said or Selection()).model_copy(update={"only": sorted(set(asked.only)), "cases": wanted})


def place_for(asked: Asked, resolved: ResolvedEval, work: Work) -> Place:
    """Where a phase runs, its options checked and its secrets read.

    Raises:
        UsageError: an unknown runner or option, too many shards, a secret without a value.
    """
    name, given = (asked.runner, asked.options) if work == "collect" else (asked.grade_runner, asked.grade_options)
    kind = lookup("runners", name)
    options = parse_options(name, kind, given)
    shards = getattr(options, "shards", 1)
    refuse_too_many(name, shards, kind.max_shards)
    needed = work == "collect" or not asked.no_grade
    plan, cases = resolved.plan, list(resolved.cases.equipped())
    local, written = kind.reads_environment, resolved.secret_places
    return Place(
        name=name,
        kind=kind,
        options=options,
        shards=shards,
        secrets=secrets_for(plan, cases, work, asked.secrets_file, local=local, places=written) if needed else {},
        secret_names=names_needed(plan, cases, work),
    )


def places(asked: Asked, resolved: ResolvedEval) -> tuple[Place, Place]:
    """Where to collect and where to grade, after everything that can be looked at here was looked at. Starts nothing.

    Raises:
        UsageError: every fault at once: options, secrets, programs, checks, graders.
    """
    faults = Faults()
    collecting = faults.note(lambda: place_for(asked, resolved, "collect"))
    grading = faults.note(lambda: place_for(asked, resolved, "grade"))
    if asked.runner in HERE:
        faults.lines += faults.note(lambda: client_faults(resolved)) or []
    if not asked.no_grade:
        faults.lines += checks_faults(resolved)
        if grading is not None and asked.grade_runner in HERE:
            faults.lines += asyncio.run(grader_faults(resolved, grading.secrets))
    faults.refuse()
    assert collecting is not None
    assert grading is not None
    return collecting, grading


def probed(asked: Asked, resolved: ResolvedEval, place: Place) -> None:
    """Ask every distinct agent one short question, where the programs run on this machine; else say that nobody does.

    Raises:
        UsageError: those that did not answer, with their words.
    """
    if asked.no_probe:
        return
    if asked.runner not in HERE:
        if has_agents(resolved):
            click.echo(f"mst: {UNASKED.format(runner=asked.runner)}", err=True)
        return
    faults = Faults(probe(resolved, place.secrets))
    if faults.lines:
        faults.lines.append("nothing was collected; --no-probe starts all the same")
    faults.refuse()


def estimated(asked: Asked, resolved: ResolvedEval, left: Counter[str]) -> Estimate:
    """What the trials that are left will take; `left` counts them by variant."""
    return estimate(resolved.plan, left, asked.output_dir)


def planned(resolved: ResolvedEval) -> Counter[str]:
    """All trials of an eval by variant."""
    each = sum(resolved.cases.trials_of(resolved.plan).values())
    return Counter({variant.name: each for variant in resolved.plan.variants})
