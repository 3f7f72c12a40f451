"""`mst show`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from mst.cli.options import as_json, fail_on, output_dir, results

if TYPE_CHECKING:
    from mst.runs.folder import RunFolder


@click.command(name="show")
@click.argument("run", metavar="RUN", default="latest")
@click.option("--grade-sets", "sets", is_flag=True,
              help="Show all gradings of the run side by side, and what came out differently.")  # fmt: skip
@output_dir
@results
@fail_on
@as_json
@click.pass_context
def command(
    ctx: click.Context,
    run: str,
    sets: bool,
    output_dir: Path,
    results: str | None,
    fail_on: tuple[str, ...],
    as_json: bool,
) -> None:
    """Show a run's result again.

    RUN is a run folder, a run ID, its 6-hex short form, `latest`, or a store URI.
    """
    from mst.cli.ending import show
    from mst.cli.results import located
    from mst.report.gates import exit_code, outcome_codes

    folder = located(run, output_dir, results)
    if sets:
        _show_sets(folder, as_json=as_json)
        return
    outcome = show(folder, fail_on=fail_on, as_json=as_json)
    ctx.exit(exit_code(outcome_codes(folder.run().phases, outcome)) if fail_on else 0)


def _show_sets(folder: RunFolder, *, as_json: bool) -> None:
    import json

    from mst.report.gradesets import grade_sets, lines
    from mst.runs.locate import regrades_of

    source = folder.source
    document = grade_sets([*([source] if source.run().phases.grade != "skipped" else []), *regrades_of(source)])
    if as_json:
        click.echo(json.dumps(document, indent=2))
        return
    for line in lines(document):
        click.echo(line)
