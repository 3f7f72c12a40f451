"""`mst show`."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from mst.cli.options import as_json, fail_on, output_dir, results

if TYPE_CHECKING:
    from mst.runs.folder import RunFolder


@click.command(name="show")
@click.argument("run", metavar="RUN", default="latest")
@click.option("--grade-sets", "sets", is_flag=True,
              help="Show all gradings of the run side by side, those in the store too with --results, and what "
                   "came out differently.")  # fmt: skip
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
    from mst.cli.results import gradings, located
    from mst.report.gates import exit_code, outcome_codes

    if sets:
        _show_sets(gradings(run, output_dir, results), as_json=as_json)
        return
    folder = located(run, output_dir, results)
    outcome = show(folder, fail_on=fail_on, as_json=as_json)
    ctx.exit(exit_code(outcome_codes(folder.run().phases, outcome)) if fail_on else 0)


def _show_sets(folders: Sequence[RunFolder], *, as_json: bool) -> None:
    import json

    from mst.model.printed.gradesets import GradeSetsDocument
    from mst.report.gradesets import grade_sets, lines

    document = grade_sets(folders)
    if as_json:
        click.echo(json.dumps(GradeSetsDocument.model_validate(document).to_print(), indent=2))
        return
    for line in lines(document):
        click.echo(line)
