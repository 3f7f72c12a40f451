"""`mst fleet`: keys of a fleet."""

from __future__ import annotations

from pathlib import Path

import click


@click.group(name="fleet")
def command() -> None:
    """Keys of a fleet."""


@command.command(name="keygen")
@click.argument("folder", type=click.Path(path_type=Path, file_okay=False))
@click.option(
    "--eval", "evals", multiple=True, default=("*",), show_default=True, help="Evals that the signing key may ask for."
)
@click.option("--queue", "queues", multiple=True, default=("*",), show_default=True, help="Queues that it may use.")
def keygen(folder: Path, evals: tuple[str, ...], queues: tuple[str, ...]) -> None:
    """Make a signing key for coordinators and a fleet key for workers.

    \b
    signing.key   private; coordinators sign with it       MST_SIGNING_KEY_FILE
    fleet.pub     public; coordinators seal secrets to it  (beside signing.key)
    fleet.key     private; workers open secrets with it    MST_FLEET_KEY_FILE
    signers.json  public; workers accept these signers     MST_TRUSTED_SIGNERS_FILE
    """
    from datetime import UTC, datetime

    from mst.fleet.keys import keygen as make

    files = make(folder, evals=list(evals), queues=list(queues), now=datetime.now(UTC))
    click.echo(f"coordinators: MST_SIGNING_KEY_FILE={files.signing_key}   (with {files.recipients.name} beside it)")
    click.echo(f"workers:      MST_FLEET_KEY_FILE={files.fleet_key}")
    click.echo(f"              MST_TRUSTED_SIGNERS_FILE={files.signers}")
