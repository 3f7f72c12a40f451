"""`mst open`: a run's report in the browser."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from mst.cli.options import output_dir, results

if TYPE_CHECKING:
    from mst.runs.folder import RunFolder

MADE_FROM = ("run.json", "summary.json", "results.json")
"""A report older than one of these is made again."""


@click.command(name="open")
@click.argument("run", metavar="RUN", default="latest")
@click.option("--print", "only_print", is_flag=True, help="Only print the report's path; open nothing.")
@output_dir
@results
def command(run: str, only_print: bool, output_dir: Path, results: str | None) -> None:
    """Open a run's report in the browser; it is made first when it is missing or older than its run.

    Of a run in a store only what the report needs is fetched, into a cache folder. RUN is a run folder, a run ID, its
    6-hex short form, `latest`, or a store URI.

    \b
    mst open
    mst open 7f3c2a.g2
    mst open latest --results s3://bucket/evals
    """
    page = _page(run, output_dir, results)
    click.echo(page)
    if only_print:
        return
    import webbrowser

    if not webbrowser.open(page.resolve().as_uri()):
        click.echo("mst: no browser could be started here; open the file that is named above", err=True)


def _page(ref: str, root: Path, uri: str | None) -> Path:
    from mst.cli.results import to_read
    from mst.runs.cached import cache_root

    folder = to_read(ref, root, uri, "page")
    page = folder.path / "report" / "index.html"
    if not page.is_relative_to(cache_root()):
        return page if _is_current(page) else _made(folder)
    if not page.is_file():
        folder = to_read(ref, root, uri, "report")
        page = folder.path / "report" / "index.html"
    return page if page.is_file() else _made(folder)


def _is_current(page: Path) -> bool:
    if not page.is_file():
        return False
    made = page.stat().st_mtime_ns
    sources = (page.parent.parent / name for name in MADE_FROM)
    return all(source.stat().st_mtime_ns <= made for source in sources if source.is_file())


def _made(folder: RunFolder) -> Path:
    from mst.report.html import write_report

    return write_report(folder, folder.path / "report")
