"""`mst ls`."""

from __future__ import annotations

import json
from pathlib import Path

import click

from mst.cli.options import as_json, open_results, output_dir, results


@click.command(name="ls")
@click.argument("eval_name", metavar="[EVAL]", required=False)
@click.option("-n", "--limit", type=click.IntRange(min=1), default=20, show_default=True, help="At most so many.")
@click.option("--all", "everything", is_flag=True, help="All runs, however many.")
@output_dir
@results
@as_json
@click.pass_context
def command(
    ctx: click.Context,
    eval_name: str | None,
    limit: int,
    everything: bool,
    output_dir: Path,
    results: str | None,
    as_json: bool,
) -> None:
    """List runs, the newest first: those of this folder, or of a store with --results.

    The first column is what other commands take as RUN. Exit 4 when a run cannot be read; the others are listed.

    \b
    mst ls
    mst ls my-eval --limit 5
    mst ls --results s3://bucket/evals --json
    """
    from mst.report.listing import list_document, render_list
    from mst.runs.listed import local_runs, stored_runs

    at_most = None if everything else limit
    if results is None:
        listed = local_runs(output_dir, eval_name=eval_name, limit=at_most)
    else:
        listed = stored_runs(open_results(results), eval_name=eval_name, limit=at_most)
    if as_json:
        click.echo(json.dumps(list_document(listed).to_print(), indent=2))
    elif listed.runs:
        from rich.console import Console

        render_list(listed, Console())
    elif not listed.wrong:
        of = f" of {eval_name}" if eval_name else ""
        where = f"under {output_dir}" if results is None else "in the store"
        click.echo(f"mst: no runs{of} {where}; 'mst run CONFIG' makes one, --output-dir looks elsewhere", err=True)
    if listed.more and not as_json:
        click.echo(f"mst: {listed.more} older not shown; --all shows them", err=True)
    for error in listed.wrong:
        click.echo(f"mst: {error}", err=True)
    ctx.exit(4 if listed.wrong else 0)
