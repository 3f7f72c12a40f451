"""`mst runner`: what a runner needs on this machine."""

from __future__ import annotations

import click


@click.group(name="runner")
def command() -> None:
    """What runners need on this machine."""


@command.group(name="setup")
def setup() -> None:
    """Prepare a runner."""


@setup.command(name="docker")
@click.option("--base", required=True, metavar="IMAGE@DIGEST", help="What to build the shard image on.")
@click.pass_context
def setup_docker(ctx: click.Context, /, *, base: str) -> None:
    """Build the image that shards run in, and say how to use it."""
    from mst.cli.images import build
    from mst.runners.images import Docker

    docker = Docker()
    click.echo(f"engine: {docker.run('version', '--format', '{{.Server.Version}}')}", err=True)
    ctx.invoke(build, kind="base", base=base, plugins=(), tag="mst-shard", secrets_file=None, as_json=False)
