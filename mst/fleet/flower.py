"""Flower with the right settings: it reads events, can change nothing, and asks for a password off loopback.

It is a view, not a record: what it shows is gone when it restarts.
"""

from __future__ import annotations

import ipaddress
import os
from collections.abc import MutableMapping
from dataclasses import dataclass, field

from mst.errors import UsageError
from mst.fleet.app import FleetSettings, make_app, without_celery_environment
from mst.fleet.extras import need

BASIC_AUTH_ENV = "MST_FLOWER_BASIC_AUTH"
TASKS_COLUMNS = "name,uuid,state,args,received,started,runtime,worker"
"""`args` shows run, dispatch, shard and attempt: the text that a sender gives for its arguments."""
MAX_TASKS = 20_000
MAX_WORKERS = 5_000
PURGE_OFFLINE_S = 600


@dataclass(frozen=True)
class FlowerSettings:
    """Where Flower listens, and who may look."""

    address: str = "127.0.0.1"
    port: int = 5555
    basic_auth: str | None = field(default=None, repr=False)
    """`USER:PASSWORD`; from the environment, never from an argument list."""
    url_prefix: str | None = None
    max_tasks: int = MAX_TASKS


def flower_argv(settings: FlowerSettings) -> list[str]:
    """Arguments for `app.start`. Hold no secret.

    Raises:
        UsageError: the address is not loopback and no password is set.
    """
    if not settings.basic_auth and not is_loopback_address(settings.address):
        raise UsageError(
            f"flower on {settings.address} can be reached by others: set {BASIC_AUTH_ENV}=USER:PASSWORD, "
            "or leave it on 127.0.0.1"
        )
    if settings.basic_auth is not None and not all(settings.basic_auth.partition(":")):
        raise UsageError(f"{BASIC_AUTH_ENV} must be USER:PASSWORD")
    argv = [
        "flower",
        f"--address={settings.address}",
        f"--port={settings.port}",
        "--read_only=true",
        # Workers are not asked, they tell: remote control is off.
        "--enable_events=false",
        "--persistent=false",
        f"--purge_offline_workers={PURGE_OFFLINE_S}",
        f"--max_tasks={settings.max_tasks}",
        f"--max_workers={MAX_WORKERS}",
        f"--tasks_columns={TASKS_COLUMNS}",
        "--natural_time=false",
    ]
    if settings.url_prefix:
        argv.append(f"--url_prefix={settings.url_prefix}")
    return argv


def flower_environ(settings: FlowerSettings) -> dict[str, str]:
    """What Flower reads from its environment: the password, and that its API needs none on loopback."""
    if settings.basic_auth:
        return {"FLOWER_BASIC_AUTH": settings.basic_auth}
    return {"FLOWER_UNAUTHENTICATED_API": "true"} if is_loopback_address(settings.address) else {}


def run_flower(
    broker_url: str,
    settings: FlowerSettings,
    fleet: FleetSettings | None = None,
    environ: MutableMapping[str, str] | None = None,
) -> None:
    """Run Flower in this process until it is told to stop.

    Inherited `FLOWER_*` and Celery's variables are dropped: they could switch off what is set here.

    Raises:
        UsageError: no password off loopback, or Flower is not installed.
    """
    need("flower", "flower")
    variables = os.environ if environ is None else environ
    argv = flower_argv(settings)
    for name in [name for name in variables if name.startswith("FLOWER_")]:
        del variables[name]
    without_celery_environment(variables)
    variables.update(flower_environ(settings))
    app = make_app(broker_url, fleet)
    # Flower's inspections each hold one connection while they wait for a second: a limited pool locks up.
    app.conf.broker_pool_limit = 0
    app.start(argv=argv)


def is_loopback_address(address: str) -> bool:
    """Whether only this machine can connect to it."""
    if address == "localhost":
        return True
    try:
        return ipaddress.ip_address(address).is_loopback
    except ValueError:
        return False
