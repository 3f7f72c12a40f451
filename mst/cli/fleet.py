"""`mst fleet`: keys of a fleet, whether it works, what it does, and how large it should be."""

from __future__ import annotations

from pathlib import Path

import click

from mst.cli.fleet_gc import gc
from mst.cli.fleet_limits import limits
from mst.cli.options import F, as_json


@click.group(name="fleet")
def command() -> None:
    """Keys, health, state, size and limits of a fleet."""


command.add_command(limits)
command.add_command(gc)


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


@command.command(name="drain", short_help="Ask workers to end after the units under way.")
@click.argument("workers", nargs=-1)
@click.option("--all", "everyone", is_flag=True, help="Every worker of this version's queues.")
@click.option("--class", "worker_class", default=None, help="Of workers of this class.")
def drain(workers: tuple[str, ...], everyone: bool, worker_class: str | None) -> None:
    """Ask workers to end: units under way finish, their shards are given back, others take them.

    \b
    mst fleet status
    mst fleet drain gpu-3 gpu-4
    mst fleet drain --all
    """
    from mst.cli.fleet_drain import ask

    for name in ask(workers, everyone=everyone, worker_class=worker_class):
        click.echo(f"{name}: asked to end after the units under way")


@command.command(name="rotate")
@click.argument("folder", type=click.Path(path_type=Path, file_okay=False, exists=True))
@click.option("--retire", is_flag=True, help="End the change: take the old key away.")
def rotate(folder: Path, retire: bool) -> None:
    """Change the fleet key without stopping anything.

    \b
    1. mst fleet rotate FOLDER            a new key beside the old one, in fleet.key and fleet.pub
    2. hand out fleet.key to workers      they read it again by themselves
    3. hand out fleet.pub to coordinators secrets are sealed to both keys now
    4. mst fleet rotate FOLDER --retire   when nothing that was sealed before is in flight; hand out both again
    """
    from datetime import UTC, datetime

    from mst.fleet.rotation import retire as take_away
    from mst.fleet.rotation import rotate as add

    now = datetime.now(UTC)
    if retire:
        for recipient in take_away(folder, now):
            click.echo(f"taken away: {recipient}")
    else:
        click.echo(f"added: {add(folder, now)}")
    click.echo(f"workers: {folder / 'fleet.key'}   coordinators: {folder / 'fleet.pub'}")


@command.command(name="check", short_help="Put a small shard through broker, worker and store.")
@click.option("--class", "worker_class", default=None, help="Only workers of this class.")
@click.option(
    "--within", "within_s", type=click.FloatRange(5, 3600), default=120.0, show_default=True, metavar="SECONDS"
)
@as_json
@click.pass_context
def check(ctx: click.Context, /, *, worker_class: str | None, within_s: float, as_json: bool) -> None:
    """Put a small shard through broker, worker and store; exit 4 when it does not come back.

    Takes the path that work takes, so that what is green here works: sealing, signing, queue, lease, bundle, a shard
    worker, its result, the manifest. Reads the environment of a coordinator.
    """
    import json
    import os

    from mst.cli.fleet_check import probe
    from mst.config.settings import Settings
    from mst.errors import UsageError

    settings = Settings.from_environment()
    if settings.broker_url is None or settings.store is None or settings.signing_key_file is None:
        raise UsageError(
            "set MST_BROKER_URL, MST_STORE and MST_SIGNING_KEY_FILE: without them there is no fleet to check"
        )
    found = probe(os.environ, worker_class=worker_class, within_s=within_s)
    if as_json:
        click.echo(json.dumps(found.to_dict()))
    elif found.ok:
        click.echo(f"the fleet works: a shard came back after {found.seconds:.1f} s")
    else:
        click.echo(f"the fleet does not work: {found.detail}")
    ctx.exit(0 if found.ok else 4)


def _signal_options(function: F) -> F:
    """Which queues are looked at, and how many shards a worker takes."""
    for option in (
        click.option(
            "--slots", type=click.IntRange(1, 64), default=1, show_default=True, help="Shards a worker takes."
        ),
        click.option("--class", "worker_class", default=None, help="Queues of workers of this class."),
        click.option(
            "--image",
            default=None,
            envvar="MST_IMAGE_DIGEST",
            show_envvar=True,
            metavar="DIGEST",
            help="Also what demands workers of this image.",
        ),
        click.option(
            "--queue",
            "queues",
            multiple=True,
            help="A queue by name, as an older version's; may be given several times.",
        ),
    ):
        function = option(function)
    return function


def _queues(given: tuple[str, ...], worker_class: str | None, image: str | None) -> list[str]:
    from mst import __version__
    from mst.fleet.queues import served_queues

    if given:
        return list(given)
    return served_queues(("collect", "grade"), mst_version=__version__, worker_class=worker_class, image=image)


def _broker_url() -> str:
    from mst.config.settings import Settings
    from mst.errors import UsageError

    url = Settings.from_environment().broker_url
    if url is None:
        raise UsageError("MST_BROKER_URL is not set: it names the broker to look at")
    return url


@command.command(name="status")
@_signal_options
@as_json
def status(*, queues: tuple[str, ...], worker_class: str | None, image: str | None, slots: int, as_json: bool) -> None:
    """Say what waits, what runs, and who is there.

    A worker that knows its image serves a second queue of each kind, which ends with the first 12 digits of its digest.
    """
    import json
    from contextlib import closing

    from mst.fleet.connect import connect
    from mst.fleet.overview import lines, look

    names = _queues(queues, worker_class, image)
    with closing(connect(_broker_url())) as client:
        found = look(client, names, slots=slots)
    click.echo(json.dumps(found.to_dict()) if as_json else "\n".join(lines(found)))


@command.command(name="broker")
@click.option("--folder", type=click.Path(file_okay=False, path_type=Path), default=Path("broker"), show_default=True,
              help="Its append-only file lies there.")  # fmt: skip
def broker(*, folder: Path) -> None:
    """Run a broker on this machine, where MST_BROKER_URL says.

    For a Procfile and for a fleet on one machine: what it took survives its end. A fleet on several machines needs a
    broker with TLS of its own.

    \b
    MST_BROKER_URL=redis://:PASSWORD@127.0.0.1:6390/0 mst fleet broker
    """
    from mst.fleet.local_broker import run_local_broker

    run_local_broker(_broker_url(), folder)


@command.command(name="scale")
@_signal_options
@click.option("--pool", default="mst", show_default=True, help="Its name in metrics.")
@click.option("--target", type=float, default=1.0, show_default=True, help="Shards per slot worth no further worker.")
@click.option("--min", "least", type=click.IntRange(0, 10_000), default=0, show_default=True)
@click.option("--max", "most", type=click.IntRange(1, 10_000), default=10, show_default=True)
@click.option("--every", "every_s", type=click.FloatRange(1, 3600), default=None, metavar="SECONDS",
              help="Go on until stopped; once otherwise.")  # fmt: skip
@click.option("--publish", type=click.Choice(["cloudwatch", "gcp", "prometheus"]), default=None)
@click.option("--project", default=None, help="Google Cloud project, for --publish gcp.")
@click.option("--metrics-port", type=click.IntRange(0, 65535), default=9464, show_default=True)
@click.option("--metrics-address", default="127.0.0.1", show_default=True)
@click.option("--janitor", is_flag=True, help="Send lost shards again as well; needs MST_STORE.")
@as_json
@click.pass_context
def scale(
    ctx: click.Context,
    /,
    *,
    queues: tuple[str, ...],
    worker_class: str | None,
    image: str | None,
    slots: int,
    pool: str,
    target: float,
    least: int,
    most: int,
    every_s: float | None,
    publish: str | None,
    project: str | None,
    metrics_port: int,
    metrics_address: str,
    janitor: bool,
    as_json: bool,
) -> None:
    """Say how many workers are needed, and publish it.

    Counts shards that wait and shards that run, from the ledger. With --json one line each time, for KEDA and others:
    `desired` is the number of workers.

    \b
    mst fleet scale --json --slots 4 --max 50
    mst fleet scale --every 30 --publish cloudwatch --pool mst-minimal --janitor
    """
    from mst.fleet.scale import Rule
    from mst.fleet.scaler import ScalerOptions, run_scaler

    options = ScalerOptions(
        queues=_queues(queues, worker_class, image), slots=slots, pool=pool,
        rule=Rule(target=target, least=least, most=most),
        every_s=every_s, publish=publish, project=project, metrics_port=metrics_port,
        metrics_address=metrics_address, janitor=janitor, as_json=as_json,
    )  # fmt: skip
    ctx.exit(run_scaler(options, _broker_url(), click.echo))
