"""`mst ps`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import click

from mst.cli.options import as_json, output_dir
from mst.cli.progress import STATE_WORDS

if TYPE_CHECKING:
    from mst.fleet.in_flight import DispatchInFlight
    from mst.runs.folder import RunFolder


@click.command(name="ps")
@output_dir
@as_json
def command(output_dir: Path, as_json: bool) -> None:
    """Runs and shards in flight: on the fleet of MST_BROKER_URL, and those that a command here works on.

    A run that was sent out from here, and of which that fleet knows nothing (its broker lost it, or it ended), waits
    for 'mst attach'.

    \b
    mst ps
    mst ps --json
    """
    from mst.config.settings import Settings
    from mst.model.printed.fleet import InFlightDocument
    from mst.runs.locate import all_runs

    broker_url = Settings.from_environment().broker_url
    dispatches = _on_fleet(broker_url) if broker_url is not None else []
    there = {one.run_id for one in dispatches}
    every = list(all_runs(output_dir))
    here = [folder for folder in every if folder.is_locked()]
    locked = {folder.run_id for folder in here}
    local = [folder for folder in here if folder.run_id not in there]
    waiting = [folder for folder in every if folder.run_id not in there | locked and _is_sent(folder)]
    if as_json:
        runs = [{**one.to_dict(), "coordinatorHere": one.run_id in locked} for one in dispatches]
        own = [_plain(folder, locked) for folder in (*local, *waiting)]
        document = InFlightDocument.model_validate({"runs": [*runs, *own]})
        click.echo(json.dumps(document.to_print(), indent=2))
        return
    for one in dispatches:
        _say(one)
    for folder in local:
        run = folder.run()
        click.echo(f"{run.run_id} {run.eval_name}: a command here works on it ({folder.path})")
    for folder in waiting:
        run = folder.run()
        click.echo(f"{run.run_id} {run.eval_name}: waiting for a coordinator; go on with: mst attach {run.run_id}")
    if not dispatches and not local and not waiting:
        click.echo("nothing is in flight" + ("" if broker_url else " here; set MST_BROKER_URL to look at a fleet"))


def _on_fleet(broker_url: str) -> list[DispatchInFlight]:
    from mst.fleet.connect import connect
    from mst.fleet.dispatch_book import DispatchBook
    from mst.fleet.in_flight import in_flight

    client = connect(broker_url)
    try:
        return in_flight(DispatchBook(client))
    finally:
        client.close()


def _is_sent(folder: RunFolder) -> bool:
    """Whether shards of it were sent out and not brought together here."""
    if not folder.work.is_dir():
        return False
    from mst.shards.coordinate import plans_of

    return bool(plans_of(folder.work, "collect") or plans_of(folder.work, "grade"))


def _plain(folder: RunFolder, locked: set[str]) -> dict[str, object]:
    run = folder.run()
    is_here = run.run_id in locked
    return {"runId": run.run_id, "eval": run.eval_name, "coordinatorHere": is_here, "path": str(folder.path)}


def _say(one: DispatchInFlight) -> None:
    states = ", ".join(f"{count} {STATE_WORDS.get(state, state)}" for state, count in one.shards.items())
    cancel = f"; being cancelled: {one.cancel}" if one.cancel else ""
    click.echo(
        f"{one.run_id} {one.dispatch} {one.work} {one.eval_name}: {one.done}/{one.units} units, {states}{cancel}"
    )
    for shard in one.in_flight:
        late = "" if shard.lease_left_s > 0 else ", its lease has run out"
        click.echo(f"  shard {shard.shard} {shard.state} on {shard.worker}: {shard.done}/{shard.units} units{late}")
