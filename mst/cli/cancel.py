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
    MST_BROKER_URL; from a machine that does not have the run this needs its full ID. What was finished stays, and
    `--resume` goes on from there.
    """
    from mst.cli.cancelling import ask_coordinator, cancel_dispatches
    from mst.cli.grading import under_way
    from mst.errors import UsageError
    from mst.runs.locate import find_run

    try:
        folder = find_run(run, output_dir)
    except UsageError as error:
        if cancel_dispatches(run):
            click.echo(f"{run}: asked to stop after the units in flight")
            return
        raise UsageError(
            f"{error}; the fleet of MST_BROKER_URL, if one is set, works on no run of this full ID"
        ) from error
    if not folder.is_locked():
        folder = under_way(folder)
    if folder.is_locked():
        ask_coordinator(folder)
    elif not cancel_dispatches(folder.run_id):
        raise UsageError(f"{folder.run_id}: nobody is working on it; nothing to cancel")
    click.echo(f"{folder.run_id}: asked to stop after the units in flight")
