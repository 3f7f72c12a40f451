"""Everything that can be found out before a run starts, all of it at once: what `validate` and `run` share."""

from __future__ import annotations

import ast
import asyncio
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import aclosing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

import click

from mst.clients.contract import ChecksFiles
from mst.collect.effective import client_key
from mst.collect.loop import client_of
from mst.collect.probe import Answer, Setting, probe_all, settings_to_probe
from mst.config.resolve import ResolvedEval
from mst.config.variants import variants_for
from mst.errors import ConfigError, GraderError, UsageError
from mst.grade.contract import Grader
from mst.grade.live import Live
from mst.grade.names import graders_for, pairwise_for
from mst.model.case import Case, Variant
from mst.model.keys import short_id
from mst.model.printed.validation import EstimateRecord, PlanDocument
from mst.process.redact import Redactor
from mst.process.scratch import scratch_prefix
from mst.report.figures import count, seconds
from mst.runs.estimate import Estimate

T = TypeVar("T")
HERE = frozenset({"local", "process"})
"""Runners whose programs run on this machine, where they can be looked at."""


@dataclass
class Faults:
    """What is wrong, one line each, in the order in which it was found."""

    lines: list[str] = field(default_factory=list)

    def note(self, work: Callable[[], T]) -> T | None:
        """Do a part of the work; what the user did wrong there is noted, and None returned."""
        try:
            return work()
        except UsageError as error:
            self.lines += str(error).splitlines()
            return None

    def refuse(self) -> None:
        """End with all of them, if there is one.

        Raises:
            UsageError: each fault on a line of its own, once.
        """
        if self.lines:
            raise UsageError("\n".join(dict.fromkeys(self.lines)))


def client_faults(resolved: ResolvedEval) -> list[str]:
    """Programs that cannot be driven from this machine, each with its variant or case. Starts no program under test."""
    faults = [
        f"variant {variant.name}: {fault}"
        for variant in resolved.plan.variants
        for fault in _faults_of(variant, resolved)
    ]
    seen: set[str] = set()
    for case in resolved.cases.equipped():
        if not (case.client or case.model or case.client_options):
            continue
        for variant in variants_for(resolved.plan, case):
            key = client_key(case, variant)
            if key not in seen:
                seen.add(key)
                faults += [f"case {case.id}: {fault}" for fault in _faults_of(variant, resolved)]
    return list(dict.fromkeys(faults))


def _faults_of(variant: Variant, resolved: ResolvedEval) -> list[str]:
    client = client_of(variant)
    faults = client.preflight()
    if isinstance(client, ChecksFiles):
        faults += client.check_files(resolved.files)
    return faults


def checks_faults(resolved: ResolvedEval) -> list[str]:
    """Checks that this Python cannot compile: found here, and not as a grading error after everything is paid."""
    faults: list[str] = []
    read: dict[str, str | None] = {}
    for case in resolved.cases.equipped():
        if case.checks is None:
            continue
        sha256, name = case.checks.sha256, case.checks.path
        if sha256 not in read:
            read[sha256] = _python_fault(resolved.files.locate(sha256).read_bytes(), name)
        fault = read[sha256]
        if fault is not None:
            faults.append(f"case {case.id}: {fault}")
    return faults


def _python_fault(source: bytes, name: str) -> str | None:
    try:
        ast.parse(source, name)
    except SyntaxError as error:
        return f"{f'{name}:{error.lineno}' if error.lineno else name}: {error.msg}"
    except ValueError as error:
        return f"{name}: {error}"
    return None


async def grader_faults(resolved: ResolvedEval, secrets: Mapping[str, str]) -> list[str]:
    """Graders that cannot be made, and judges that cannot judge: each distinct one is asked once. Judges no case."""
    with tempfile.TemporaryDirectory(prefix=scratch_prefix("validate")) as scratch:
        source = Live(
            resolved.plan,
            files=resolved.files,
            secrets=secrets,
            scratch=Path(scratch),
            redactor=Redactor(secrets.values()),
        )
        faults: list[str] = []
        async with aclosing(source):
            for graders in _graders(resolved):
                try:
                    await source.preflight(graders)
                except GraderError as error:
                    faults += str(error).splitlines()
        return list(dict.fromkeys(faults))


def _graders(resolved: ResolvedEval) -> Iterator[list[Grader]]:
    plan = resolved.plan
    nothing = Case(id="-", dataset="-")
    for variant in plan.variants:
        yield graders_for(plan, variant, nothing)
    yield pairwise_for(plan)
    for case in resolved.cases.equipped():
        if case.judges:
            yield graders_for(plan, plan.variants[0], case)


def has_agents(resolved: ResolvedEval) -> bool:
    """Whether some variant's program asks a model, so that a short question would show whether it can."""
    try:
        return bool(settings_to_probe(resolved.plan, resolved.cases.equipped()))
    except ConfigError:
        return False  # told when it is collected, where its client can be made


def probe(resolved: ResolvedEval, secrets: Mapping[str, str]) -> list[str]:
    """Ask every distinct agent one short question, say how it went and what it cost, and return the faults."""
    try:
        settings = settings_to_probe(resolved.plan, resolved.cases.equipped())
    except ConfigError as error:
        return str(error).splitlines()
    if not settings:
        return []
    click.echo(
        f"mst: probing {count(len(settings), 'agent setting')} with one short question (--no-probe leaves it out)",
        err=True,
    )
    with tempfile.TemporaryDirectory(prefix=scratch_prefix("probe")) as scratch:
        answers = asyncio.run(
            probe_all(
                settings,
                files=resolved.files,
                secrets=secrets,
                timeouts=resolved.plan.stage_timeouts,
                scratch_root=Path(scratch),
                pricing=resolved.plan.pricing,
            )
        )
    for answer in answers:
        if answer.fault is None:
            click.echo(f"mst: probe of {_named(answer.setting)}: answered in {_spent(answer)}", err=True)
    return [f"probe of {_named(answer.setting)}: {answer.fault}" for answer in answers if answer.fault is not None]


def _named(setting: Setting) -> str:
    names = ", ".join(setting.variants)
    agent = ", ".join(part for part in (setting.variant.client, setting.variant.model) if part)
    return f"variant{'' if len(setting.variants) == 1 else 's'} {names} ({agent})"


def _spent(answer: Answer) -> str:
    paid = answer.usage.cost_usd if answer.usage else None
    return f"{seconds(answer.seconds)}, {'cost unknown' if paid is None else f'${paid:.4f}'}"


def estimate_line(found: Estimate, *, at_once: int) -> str:
    """What is about to run and what it will take, in one line; unknown figures are called unknown."""
    start = f"{count(found.trials, 'trial')}, {at_once:,} at a time"
    why = f" ({'; '.join(found.unknown)})" if found.unknown else ""
    if found.run_id is None:
        return f"{start}; time and cost unknown{why}"
    wall = found.wall_s(at_once)
    if wall is None and found.cost_usd is None and found.judge_cost_usd is None:
        return f"{start}; going by run {short_id(found.run_id)}: time and cost unknown{why}"
    parts = [
        f"collecting about {seconds(wall)}" if wall is not None else "time unknown",
        f"programs about ${found.cost_usd:.2f}" if found.cost_usd is not None else "cost of programs unknown",
    ]
    if found.judge_cost_usd != 0:
        known = found.judge_cost_usd
        parts.append(f"judges about ${known:.2f}" if known is not None else "cost of judges unknown")
    return f"{start}; going by run {short_id(found.run_id)}: {', '.join(parts)}{why}"


def plan_document(resolved: ResolvedEval, found: Estimate, *, at_once: int) -> dict[str, Any]:
    """What a run would do, as it is printed; what is not known is null, and `unknown` says why."""
    plan = resolved.plan
    return PlanDocument(
        name=plan.name,
        datasets=list(resolved.datasets),
        variants=[variant.name for variant in plan.variants],
        baseline=plan.baseline,
        cases=len(resolved.cases),
        trials=found.trials,
        estimate=EstimateRecord(
            run=found.run_id,
            at_once=at_once,
            collect_s=found.wall_s(at_once),
            program_s=found.program_s,
            cost_usd=found.cost_usd,
            judge_cost_usd=found.judge_cost_usd,
            unknown=list(found.unknown),
        ),
    ).to_print()
