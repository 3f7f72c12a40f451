"""`mst cancel`."""

from __future__ import annotations

from pathlib import Path

import click

from mst.cli.options import output_dir


@click.command(name="cancel")
@click.argument("run", metavar="RUN")
@output_dir
def command(run: str, output_dir: Path) -> None:
    """Stop a grading or collecting that runs elsewhere, after the units in flight.

    Its coordinator is told through the run folder. When it is gone, the dispatch is cancelled at the broker of
    MST_BROKER_URL. What was finished stays, and `--resume` goes on from there.
    """
    from mst.cli.cancelling import ask_coordinator, cancel_dispatches
    from mst.cli.grading import open_regrade
    from mst.errors import UsageError
    from mst.runs.locate import find_run

    folder = find_run(run, output_dir)
    if not folder.is_locked():
        folder = open_regrade(folder)
    if folder.is_locked():
        ask_coordinator(folder)
    elif not cancel_dispatches(folder):
        raise UsageError(f"{folder.run_id}: nobody is working on it; nothing to cancel")
    click.echo(f"{folder.run_id}: asked to stop after the units in flight")
