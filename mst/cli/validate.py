"""`mst validate`: everything that can be found out before anything is paid."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from mst.cli.options import as_json, read_runner_options, runner_options, secrets_file

if TYPE_CHECKING:
    from mst.cli.validation import Validation

SHOWN_CASES = 20
"""Cases that are named for one reason."""


@click.command(
    name="validate",
    epilog="Examples: mst validate eval.yaml --oracle --noop; the same in shards: --runner process "
    "--runner-option shards=2",
)
@click.argument("config", type=click.Path(path_type=Path, dir_okay=False))
@click.option("--oracle", is_flag=True, help="Grade every reference solution: a sound case passes it.")
@click.option("--noop", is_flag=True, help="Grade doing nothing: it must fail, or pass where nothing is to be done.")
@click.option("--strict", is_flag=True, help="Count cases that can only be checked in a real run as faulty.")
@runner_options
@secrets_file
@as_json
@click.pass_context
def command(
    ctx: click.Context,
    config: Path,
    oracle: bool,
    noop: bool,
    strict: bool,
    runner: str,
    runner_option: tuple[str, ...],
    secrets_file: Path | None,
    as_json: bool,
) -> None:
    """Check an eval: config, plugins, datasets, secrets, programs; and with --oracle or --noop its cases.

    Exit code 0: sound; 1: a case is faulty; 2: the eval cannot run as it is.
    """
    from mst.cli.validation import Where, validate

    stand_ins = [name for name, wanted in (("oracle", oracle), ("noop", noop)) if wanted]
    where = Where(runner=runner, options=read_runner_options(runner_option))
    found = validate(config, stand_ins, secrets_file, where)
    if as_json:
        import json

        click.echo(json.dumps(found.document(strict=strict).to_print(), indent=2, ensure_ascii=False))
    else:
        _print(found, strict=strict)
    for fault in found.faults:
        click.echo(f"mst: {fault}", err=True)
    ctx.exit(found.exit_code(strict=strict))


def _print(found: Validation, *, strict: bool) -> None:
    resolved = found.resolved
    plan = resolved.plan
    click.echo(f"{plan.name}: {_count(len(plan.variants), 'variant')}, {_count(len(resolved.cases), 'case')}, "
               f"{_count(found.trials, 'trial')}")  # fmt: skip
    for dataset in resolved.datasets:
        click.echo(f"  dataset {dataset.name}: {_count(dataset.case_count, 'case')}")
    for warning in found.warnings:
        click.echo(f"mst: {warning}", err=True)
    if len(plan.variants) > 1:
        click.echo("")
        print_differences(found)
    if candidates := len(plan.candidates):
        click.echo("")
        click.echo(paragraph(needed_note(candidates=candidates, cases=len(resolved.cases))))
    for stand_in, checks in found.checks.items():
        click.echo("")
        print_checks(stand_in, checks, strict=strict)
    if not found.faults and found.exit_code(strict=strict) == 0:
        click.echo("\nready")


def print_differences(found: Validation) -> None:
    """What the variants differ in: each field, and below it its value for each variant."""
    from mst.cli.validation import concealed

    names = [variant.name for variant in found.resolved.plan.variants]
    baseline = found.resolved.plan.baseline
    if not found.resolved.differences:
        click.echo("the variants do not differ: only chance can")
        return
    for difference in found.resolved.differences:
        click.echo(click.style(difference.field, bold=True))
        values = concealed(difference)
        for name in names:
            mark = " (baseline)" if name == baseline else ""
            click.echo(paragraph(f"{name}{mark}: {shown(values.get(name))}", indent="  ", hanging="      "))


def shown(value: object) -> str:
    """A value of a difference in one line."""
    import json

    from mst.report.text import one_line

    if value is None:
        return "-"
    return one_line(value if isinstance(value, str) else json.dumps(value, ensure_ascii=False))


def print_checks(stand_in: str, checks: Sequence[object], *, strict: bool) -> None:
    """A count, and the cases that are not simply sound: a line for each reason."""
    from mst.report.text import names
    from mst.runs.casecheck import CaseCheck

    found = [check for check in checks if isinstance(check, CaseCheck)]
    sound = sum(check.verdict == "1.0" for check in found)
    click.echo(f"{stand_in}: {sound} of {len(found)} cases as they should be")
    why: dict[tuple[str, str], list[str]] = {}
    for check in found:
        if check.verdict != "1.0":
            why.setdefault((check.verdict, check.detail), []).append(check.case_id)
    for (verdict, detail), cases in why.items():
        mark = " (--strict)" if strict and verdict == "deferred" else ""
        if len(cases) == 1:
            click.echo(f"  {verdict:<8} {cases[0]}: {detail}{mark}")
            continue
        click.echo(f"  {verdict:<8} {_count(len(cases), 'case')}: {detail}{mark}")
        click.echo(paragraph(names(cases, limit=SHOWN_CASES), indent="           "))
        if len(cases) > SHOWN_CASES:
            click.echo("           (--json lists them all)")


def paragraph(text: str, *, indent: str = "", hanging: str | None = None) -> str:
    """Text broken between words on a terminal, which breaks it anywhere; as it is elsewhere.

    `hanging` is the indent of the lines after the first, where that is another.
    """
    import shutil
    import sys

    if not sys.stdout.isatty():
        return indent + text
    width = max(30, min(100, shutil.get_terminal_size().columns - 1))
    return click.wrap_text(text, width, initial_indent=indent, subsequent_indent=hanging or indent)


def needed_note(*, candidates: int, cases: int | None) -> str:
    """How many cases a verdict needs, honestly."""
    from mst.stats.decision import decisive_needed

    needed = decisive_needed(candidates)
    among = "one candidate" if candidates == 1 else f"{candidates} candidates"
    note = (
        f"With {among}, 'better' needs at least {needed} cases on which the two differ, all in the same direction; "
        "cases on which both do the same decide nothing, and flips the other way cost more."
    )
    if cases is not None and cases < needed:
        note += f" With {_count(cases, 'case')} no verdict is possible, whatever happens: write at least {needed}."
    return f"{note} 20 to 30 cases that could go either way are a good start."


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"
