"""`mst images`: worker images."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

import click

from mst.cli.options import as_json, secrets_file


@click.group(name="images")
def command() -> None:
    """Images of workers, agents and the proxy of sandboxes."""


@command.command(name="build")
@click.argument("kind", type=click.Choice(["base", "judges", "agents", "proxy"]))
@click.option("--base", required=True, metavar="IMAGE@DIGEST", help="What to build on: Debian-like, Python, tini.")
@click.option("--with", "plugins", multiple=True, metavar="PACKAGE", help="Package of a plugin or judge.")
@click.option("--tag", default=None, help="Name for the result.")
@secrets_file
@as_json
def build(
    *,
    kind: Literal["base", "judges", "agents", "proxy"],
    base: str,
    plugins: tuple[str, ...],
    tag: str | None,
    secrets_file: Path | None,
    as_json: bool,
) -> None:
    """Build a worker image with the packages that this coordinator has, at its versions; or a sandbox's proxy.

    Looks for secrets in every layer (patterns, values of the secrets file, keys in the environment), tries the image,
    and prints its digest.

    \b
    mst images build base --base debian-python@sha256:0123...
    mst images build proxy --base debian-python@sha256:0123... --tag mst-proxy
    mst images build judges --base debian-python@sha256:0123... --with my-mst-plugin --tag team/mst-judges
    """
    import json
    from dataclasses import asdict

    from mst.config.secrets import read_secrets_file
    from mst.runners.images import Docker, ImageOrder, build_image, recipes_folder

    values = list(read_secrets_file(secrets_file).values()) if secrets_file is not None else []
    order = ImageOrder(kind=kind, base=base, tag=tag, plugins=plugins, secret_values=values, recipes=recipes_folder())
    built = build_image(order, Docker())
    if as_json:
        click.echo(json.dumps(asdict(built)))
        return
    click.echo(built.smoke, err=True)
    click.echo(f"{built.parts} parts, {built.size_bytes / 1e6:.0f} MB", err=True)
    click.echo(built.digest)
