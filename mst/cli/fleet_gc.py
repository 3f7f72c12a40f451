"""`mst fleet gc`."""

from __future__ import annotations

import click

from mst.cli.options import as_json


@click.command(name="gc", short_help="Remove what is over from the broker.")
@click.option("--dry-run", is_flag=True, help="Only say what would be removed.")
@as_json
def gc(*, dry_run: bool, as_json: bool) -> None:
    """Remove what is left in the broker of dispatches that are over and of workers that are gone.

    Safe beside a fleet at work, and no result is in the broker. What stays goes by itself a week after its deadline;
    only messages of dispatches that were closed would wait for ever in a queue that nobody serves any more.

    \b
    mst fleet gc --dry-run
    """
    import json
    from collections import Counter
    from contextlib import closing

    from mst.config.settings import Settings
    from mst.errors import UsageError
    from mst.fleet.connect import connect
    from mst.fleet.gc import Leftovers
    from mst.fleet.logs import log_for_people
    from mst.model.printed.fleet import BrokerClearedDocument

    log_for_people()
    url = Settings.from_environment().broker_url
    if url is None:
        raise UsageError("MST_BROKER_URL is not set: it names the broker to clear")
    with closing(connect(url)) as client:
        leftovers = Leftovers(client)
        gone = [one for one in leftovers.find() if dry_run or leftovers.remove(one)]
    if as_json:
        document = BrokerClearedDocument.model_validate({"dryRun": dry_run, "removed": [one.to_dict() for one in gone]})
        click.echo(json.dumps(document.to_print(), indent=2))
    else:
        for (kind, name, why), count in Counter((one.kind, one.name, one.why) for one in gone).items():
            click.echo(f"{kind} {name}: {why}" + (f" ({count} keys)" if count > 1 else ""))
    click.echo(f"mst: {len(gone)} leftovers {'would be ' if dry_run else ''}removed", err=True)
