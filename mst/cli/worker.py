"""`mst worker`."""

from __future__ import annotations

import os
from typing import Literal

import click


@click.command(name="worker")
@click.option("--trusted", is_flag=True, help="Run shards as plain processes of this user: only where everyone who may "
              "sign for the fleet may run code here.")  # fmt: skip
@click.option("--shard-image", default=None, metavar="IMAGE", help="Run each shard in a container of this image, "
              "which has this version of mst; then the fleet need not be trusted.")  # fmt: skip
@click.option("--work", type=click.Choice(["collect", "grade"]), multiple=True, help="Only this kind of work.")
@click.option("--class", "worker_class", default=None, help="Class of this worker; part of its queues' names.")
@click.option("--slots", type=click.IntRange(1, 64), default=1, show_default=True, help="Shards at a time.")
@click.option("--name", default=None, help="Name in the fleet; host name and process ID by default.")
@click.option(
    "--log-level", type=click.Choice(["DEBUG", "INFO", "WARNING", "ERROR"]), default="INFO", show_default=True
)
@click.option("--cloud", type=click.Choice(["aws", "gcp"]), default=None,
              help="Heed this cloud's notices, and keep the machine while it is busy.")  # fmt: skip
@click.option("--idle-minutes", type=click.FloatRange(min=0.01), default=None, metavar="MINUTES",
              help="With --cloud: end the machine after so long without a shard.")  # fmt: skip
@click.option("--metrics-port", type=click.IntRange(0, 65535), default=None, help="Serve Prometheus metrics there.")
@click.option("--metrics-address", default="127.0.0.1", show_default=True)
@click.option("--shard-memory", type=click.FloatRange(min=0.05), default=None, metavar="GIB",
              help="Memory of one shard and all that it runs.")  # fmt: skip
@click.option("--shard-cpus", type=click.FloatRange(min=0.1), default=None, help="Processors of one shard.")
@click.option("--shard-pids", type=click.IntRange(16), default=None, help="Processes of one shard.")
@click.option("--shard-disk", type=click.FloatRange(min=0.01), default=None, metavar="GIB",
              help="Disk of one shard; it is ended soon after it uses more.")  # fmt: skip
@click.option("--shard-minutes", type=click.FloatRange(min=0.01), default=None, metavar="MINUTES",
              help="Time of one attempt at a shard, waiting for turns included.")  # fmt: skip
@click.option("--min-free", type=click.FloatRange(min=0), default=0.5, show_default=True, metavar="GIB",
              help="Take no shard while less is free in TMPDIR.")  # fmt: skip
@click.option("--with-stdin", is_flag=True, hidden=True, help="End at once when stdin closes.")
@click.option("--janitor-every", type=float, default=10.0, hidden=True)
@click.option("--settle", type=float, default=120.0, hidden=True)
@click.option("--store-patience", type=float, default=3600.0, hidden=True)
@click.option("--hurry-after", type=float, default=60.0, hidden=True)
@click.pass_context
def command(
    ctx: click.Context,
    /,
    *,
    trusted: bool,
    shard_image: str | None,
    work: tuple[str, ...],
    worker_class: str | None,
    slots: int,
    name: str | None,
    log_level: str,
    cloud: Literal["aws", "gcp"] | None,
    idle_minutes: float | None,
    metrics_port: int | None,
    metrics_address: str,
    shard_memory: float | None,
    shard_cpus: float | None,
    shard_pids: int | None,
    shard_disk: float | None,
    shard_minutes: float | None,
    min_free: float,
    with_stdin: bool,
    janitor_every: float,
    settle: float,
    store_patience: float,
    hurry_after: float,
) -> None:
    """Run a Celery worker with the settings that shards need.

    Reads MST_BROKER_URL, MST_STORE, MST_FLEET_KEY_FILE and MST_TRUSTED_SIGNERS_FILE from the environment, and in an
    image MST_IMAGE_DIGEST, which 'mst images build' and a push print: shards that demand this image then come here.

    \b
    mst worker --trusted
    mst worker --trusted --work grade --slots 4
    mst worker --trusted --slots 2 --shard-memory 4 --shard-cpus 1
    mst worker --trusted --shard-disk 20 --shard-minutes 120
    mst worker --shard-image mst-judges@sha256:0123... --shard-memory 4
    """
    from mst.config.settings import Settings, variable
    from mst.fleet.confine import ShardBounds
    from mst.fleet.queues import digest_of
    from mst.fleet.worker import WorkerOptions, run_worker

    settings = Settings.from_environment()
    image = None if settings.image_digest is None else digest_of(settings.image_digest)
    if image is not None:
        # in one spelling for all that is started here: it is part of what makes trials comparable
        os.environ[variable("image_digest")] = image
    options = WorkerOptions(
        works=work or ("collect", "grade"),  # type: ignore[arg-type]  # click checked the values
        worker_class=worker_class,
        image=image,
        slots=slots,
        name=name,
        trusted=trusted,
        shard_image=shard_image,
        with_stdin=with_stdin,
        log_level=log_level,
        janitor_every_s=janitor_every,
        settle_s=settle,
        store_patience_s=store_patience,
        hurry_after_s=hurry_after,
        cloud=cloud,
        idle_s=None if idle_minutes is None or cloud is None else idle_minutes * 60,
        metrics_port=metrics_port,
        metrics_address=metrics_address,
        bounds=ShardBounds(
            memory_bytes=None if shard_memory is None else int(shard_memory * 1024**3),
            cpus=shard_cpus,
            pids=shard_pids,
            disk_bytes=None if shard_disk is None else int(shard_disk * 1024**3),
            time_s=None if shard_minutes is None else shard_minutes * 60,
        ),
        min_free_bytes=int(min_free * 1024**3),
    )
    ctx.exit(run_worker(options, settings))
