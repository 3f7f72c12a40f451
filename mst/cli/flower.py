"""`mst flower`."""

from __future__ import annotations

import click


@click.command(name="flower")
@click.option("--address", default="127.0.0.1", show_default=True, help="Where to listen.")
@click.option("--port", type=click.IntRange(0, 65535), default=5555, show_default=True)
@click.option("--url-prefix", default=None, help="When behind a proxy.")
def command(address: str, port: int, url_prefix: str | None) -> None:
    """Watch the fleet in a browser: tasks by run, shard and attempt. Read-only, from events alone.

    Reads MST_BROKER_URL, and MST_FLOWER_BASIC_AUTH (USER:PASSWORD), which is required off loopback.
    """
    import os

    from mst.config.settings import Settings
    from mst.errors import UsageError
    from mst.fleet.flower import BASIC_AUTH_ENV, FlowerSettings, run_flower

    broker_url = Settings.from_environment().broker_url
    if broker_url is None:
        raise UsageError("MST_BROKER_URL is not set: it names the broker to watch")
    settings = FlowerSettings(
        address=address, port=port, basic_auth=os.environ.get(BASIC_AUTH_ENV), url_prefix=url_prefix
    )
    run_flower(broker_url, settings)
