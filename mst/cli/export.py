"""`mst export`: a run's results in the formats of other programs."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from mst.cli.options import output_dir, results

if TYPE_CHECKING:
    from mst.report.exports.formats import FormatName, TableName

NAMES = ("junit", "csv", "parquet", "jsonl", "markdown", "html")


@click.command(name="export")
@click.argument("run", metavar="RUN", default="latest")
@click.option("--to", "name", type=click.Choice(NAMES), required=True, help="The format.")
@click.option("-o", "--output", type=click.Path(path_type=Path), default=None, help="File to write; stdout by default.")
@click.option("--table", type=click.Choice(["trials", "scores", "preferences"]), default="trials", show_default=True,
              help="Of csv, parquet and jsonl: what a row is.")  # fmt: skip
@click.option("--variant", "variants", multiple=True, metavar="NAME",
              help="Of csv, parquet, jsonl and junit: only this variant; may be given several times.")  # fmt: skip
@output_dir
@results
def command(
    run: str,
    name: FormatName,
    output: Path | None,
    table: TableName,
    variants: tuple[str, ...],
    output_dir: Path,
    results: str | None,
) -> None:
    """Write a run's results for a CI system, a spreadsheet, a notebook, a pull request or a reader.

    The file appears when it is complete. Memory does not grow with the run. RUN is a run folder, a run ID, its 6-hex
    short form, `latest`, or a store URI.

    \b
    mst export latest --to junit -o junit.xml --variant new
    mst export latest --to markdown -o comment.md
    mst export 7f3c2a --to csv -o trials.csv
    mst export 7f3c2a --to parquet --table scores -o scores.parquet
    mst export latest --to html -o report.html --results s3://bucket/evals
    """
    from mst.cli.results import to_read
    from mst.errors import UsageError
    from mst.report.exports.formats import BINARY, Asked, check_asked, replacing, write

    asked = Asked(table=table, variants=variants)
    folder = to_read(run, output_dir, results, "report" if name == "html" else "numbers")
    check_asked(name, asked, [variant.name for variant in folder.run().variants])
    folder.summary()
    if output is not None:
        with replacing(output) as stream:
            write(name, folder, stream, asked)
        click.echo(f"mst: wrote {output}", err=True)
        return
    if name in BINARY and sys.stdout.isatty():
        raise UsageError(f"{name} is not for a terminal: name a file with -o")
    write(name, folder, sys.stdout.buffer, asked)
    sys.stdout.flush()
