"""`mst fleet limits`."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import click

from mst.cli.options import as_json

if TYPE_CHECKING:
    from mst.fleet.limiter import InUse
    from mst.providers.rates import Rate


@click.command(name="limits")
@click.argument("resource", required=False)
@click.option("--concurrent", type=click.IntRange(1), default=None, help="Calls at a time.")
@click.option("--per-minute", type=click.FloatRange(0, min_open=True), default=None, help="Calls a minute.")
@click.option("--tokens-per-minute", type=click.FloatRange(0, min_open=True), default=None, help="Tokens in and out.")
@click.option("--clear", is_flag=True, help="Remove the fleet's own limits of RESOURCE.")
@click.option("--spent", "runs", multiple=True, metavar="RUN_ID", help="Show what this run has spent, too.")
@as_json
def limits(
    resource: str | None,
    concurrent: int | None,
    per_minute: float | None,
    tokens_per_minute: float | None,
    clear: bool,
    runs: tuple[str, ...],
    as_json: bool,
) -> None:
    """Show which calls run and wait, and set limits for the whole fleet.

    RESOURCE is `provider:NAME` or `server:LABEL`. The limits set here only lower what an eval allows; they
    hold from the next call on, for every run.

    \b
    mst fleet limits
    mst fleet limits provider:anthropic --concurrent 8 --tokens-per-minute 80000
    mst fleet limits provider:anthropic --clear
    """
    from mst.config.settings import Settings
    from mst.errors import UsageError
    from mst.fleet.connect import connect
    from mst.fleet.limiter import LimitBook
    from mst.fleet.spend import FleetSpend
    from mst.model.printed.fleet import FleetLimitsDocument
    from mst.providers.rates import Rate

    broker_url = Settings.from_environment().broker_url
    if broker_url is None:
        raise UsageError("MST_BROKER_URL is not set: it names the fleet's broker")
    given = Rate(resource or "", concurrent, per_minute, tokens_per_minute)
    _check(given, clear=clear)
    client = connect(broker_url)
    try:
        book = LimitBook(client)
        if resource is not None and (clear or len(given.to_dict()) > 1):
            book.set_cap(given)
        found = [one for one in book.in_use() if resource in (None, one.resource)]
        spent = {run: FleetSpend(client, run).spent() for run in runs}
    finally:
        client.close()
    if as_json:
        document = {
            "resources": [_plain(one) for one in found],
            "spent": {run: {"tokens": tokens, "costUsd": cost} for run, (tokens, cost) in spent.items()},
        }
        click.echo(json.dumps(FleetLimitsDocument.model_validate(document).to_print(), indent=2))
        return
    for one in found:
        click.echo(_line(one))
    for run, (tokens, cost_usd) in spent.items():
        click.echo(f"{run}: {tokens:.0f} tokens, {cost_usd:.4f} USD, units under way included")
    if not found and not runs:
        click.echo("no call has asked for a turn lately, and no limit is set")


def _check(given: Rate, *, clear: bool) -> None:
    from mst.errors import UsageError

    limited = len(given.to_dict()) > 1
    kind, _, name = given.resource.partition(":")
    if given.resource and (kind not in ("provider", "server") or not name):
        raise UsageError(f"{given.resource!r}: name what is limited as provider:NAME or server:LABEL")
    if not given.resource and (limited or clear):
        raise UsageError("which resource? Name it before the limits, as in: mst fleet limits provider:openai ...")
    if limited and clear:
        raise UsageError("--clear removes all limits of a resource; leave the limits out")


def _plain(one: InUse) -> dict[str, object]:
    cap = {key: value for key, value in one.cap.to_dict().items() if key != "resource"}
    return {
        "resource": one.resource,
        "running": one.running,
        "waiting": one.waiting,
        "pausedS": round(one.paused_s, 1),
        "limits": cap,
    }


def _line(one: InUse) -> str:
    names = {"concurrent": "at a time", "per_minute": "a minute", "tokens_per_minute": "tokens a minute"}
    caps = [f"{value:g} {names[key]}" for key, value in one.cap.to_dict().items() if key in names]
    parts = [f"{one.running} running", f"{one.waiting} waiting"]
    if one.paused_s > 0:
        parts.append(f"paused for {one.paused_s:.0f} s")
    return f"{one.resource}: {', '.join(parts)}" + (f"; at most {', '.join(caps)}" if caps else "")
