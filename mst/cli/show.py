"""`mst show`."""

from __future__ import annotations

from pathlib import Path

import click

from mst.cli.options import as_json, fail_on, output_dir, results


@click.command(name="show")
@click.argument("run", metavar="RUN", default="latest")
@output_dir
@results
@fail_on
@as_json
@click.pass_context
def command(
    ctx: click.Context, run: str, output_dir: Path, results: str | None, fail_on: tuple[str, ...], as_json: bool
) -> None:
    """Show a run's result again.

    RUN is a run folder, a run ID, its 6-hex short form, or `latest`.
    """
    from mst.cli.ending import show
    from mst.cli.results import located
    from mst.report.gates import exit_code, outcome_codes

    folder = located(run, output_dir, results)
    outcome = show(folder, fail_on=fail_on, as_json=as_json)
    ctx.exit(exit_code(outcome_codes(folder.run().phases, outcome)) if fail_on else 0)
