"""`mst compare`: two runs held against each other."""

from __future__ import annotations

import json
from pathlib import Path

import click

from mst.cli.options import as_json, output_dir, results


@click.command(name="compare")
@click.argument("first", metavar="RUN")
@click.argument("second", metavar="RUN")
@output_dir
@results
@click.option(
    "--fail-on",
    multiple=True,
    metavar="CONDITION",
    help="Exit 1 when the second run's variants are: worse, regression, not-better, cannot-tell.",
)
@as_json
@click.pass_context
def command(
    ctx: click.Context,
    first: str,
    second: str,
    output_dir: Path,
    results: str | None,
    fail_on: tuple[str, ...],
    as_json: bool,
) -> None:
    """Hold a second run against a first: is a variant better than it was, and what changed in between?

    Variants are matched by name, cases by ID and content; what has no counterpart is listed. Two gradings of the same
    trials get no verdict, but every difference. RUN is a run folder, a run ID, its 6-hex short form, `latest`, or a
    store URI.

    \b
    mst compare 7f3c2a latest
    mst compare 7f3c2a 7f3c2a.g2
    mst compare 7f3c2a latest --fail-on worse --fail-on regression
    mst compare s3://bucket/evals/hello/runs/20261007T182504Z-7f3c2a latest
    """
    from mst.cli.results import to_read
    from mst.report.compared import compared, comparison_document, render_comparison
    from mst.report.gates import gate_comparison, parse_conditions

    conditions = parse_conditions(fail_on)
    found = compared(to_read(first, output_dir, results), to_read(second, output_dir, results))
    outcome = gate_comparison(found, conditions)
    if as_json:
        click.echo(json.dumps(comparison_document(found, outcome).to_print(), indent=2))
    else:
        from rich.console import Console

        render_comparison(found, Console())
        for reason in outcome.reasons:
            click.echo(f"gate: {reason}", err=True)
    ctx.exit(1 if outcome.failed else 0)
