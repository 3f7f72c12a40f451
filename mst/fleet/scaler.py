"""The always-on process beside a fleet: publishes the scaling signal, and sends lost shards again."""

from __future__ import annotations

import json
import os
import signal
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass

import structlog

from mst.config.settings import Settings
from mst.errors import InfrastructureError, UsageError
from mst.fleet.app import make_app
from mst.fleet.broker_check import START_S, check_broker
from mst.fleet.connect import RedisClient, connect
from mst.fleet.dispatch_book import DispatchBook
from mst.fleet.host import celery_sender
from mst.fleet.janitor import Janitor
from mst.fleet.ledger import Ledger
from mst.fleet.logs import log_for_machines
from mst.fleet.metrics import SignalMetrics, serve
from mst.fleet.presence import Presence
from mst.fleet.publish import CloudMonitoring, CloudWatch, Publisher
from mst.fleet.scale import Rule, read_signal, shown
from mst.fleet.scale_rules import ScaleRules
from mst.model.fleet import DEFAULT_LEASE_TTL_S
from mst.store.uri import open_store

JANITOR_EVERY_S = 15.0
RULES = ("cloudwatch", "gcp")
"""Where what is published starts machines; what only looks is no promise to anybody."""
ANNOUNCED_S = 300.0
"""How long a queue is taken for served after the last signal, for scalers that look more often than that."""

log = structlog.get_logger(__name__)


@dataclass(frozen=True, kw_only=True)
class ScalerOptions:
    """What `mst fleet scale` was asked.

    Attributes:
        every_s: seconds between looks; None for one look.
        publish: `cloudwatch`, `gcp`, `prometheus` or None.
        janitor: also send lost shards again.
    """

    queues: list[str]
    slots: int
    pool: str
    rule: Rule
    every_s: float | None = None
    publish: str | None = None
    project: str | None = None
    metrics_port: int = 9464
    metrics_address: str = "127.0.0.1"
    janitor: bool = False
    as_json: bool = False


def run_scaler(options: ScalerOptions, broker_url: str, say: Callable[[str], None]) -> int:
    """Look once, or until SIGTERM or SIGINT; returns the exit code. Owns the process when it goes on.

    A broker or cloud that does not answer for a while is logged and asked again; in a single look it is an error.

    Raises:
        UsageError: an option is missing.
        InfrastructureError: a single look failed, or the broker is unfit.
    """
    log_for_machines("info")
    publisher = _publisher(options)
    check_broker(broker_url, patience_s=START_S if options.every_s is not None else 0.0)
    with closing(connect(broker_url)) as client:
        if options.every_s is None:
            _look(options, client, publisher, say)
            return 0
        ended = _end_on_signals()
        with _janitor(options, client, broker_url):
            while True:
                try:
                    _look(options, client, publisher, say)
                except InfrastructureError as error:
                    log.warning("scaling_signal_missed", reason=str(error)[:500])
                if ended.wait(options.every_s):
                    return 0


def _look(options: ScalerOptions, client: RedisClient, publisher: Publisher | None, say: Callable[[str], None]) -> None:
    found = read_signal(client, options.queues, slots=options.slots)
    values = shown(found, options.rule)
    if options.as_json:
        say(json.dumps({"pool": options.pool, "queues": options.queues, **values}))
    else:
        say(
            f"{options.pool}: {found.queued} queued (oldest {found.oldest_wait_s:.0f} s), {found.running} running, "
            f"{found.workers} workers, {found.backlog_per_worker:.2f} per slot: {values['desired']} needed"
        )
    if publisher is not None:
        publisher.publish(found)
    if options.publish in RULES:
        ScaleRules(client).announce(options.pool, options.queues, ttl_s=max(ANNOUNCED_S, 3 * (options.every_s or 0)))


def _publisher(options: ScalerOptions) -> Publisher | None:
    match options.publish:
        case "cloudwatch":
            return CloudWatch(options.pool)
        case "gcp":
            if options.project is None:
                raise UsageError("--publish gcp: name the project with --project")
            return CloudMonitoring(options.pool, options.project)
        case "prometheus":
            if options.every_s is None:
                raise UsageError("--publish prometheus: is read while this runs; add --every 15")
            metrics = SignalMetrics(options.pool)
            try:
                serve(metrics.registry, port=options.metrics_port, address=options.metrics_address)
            except OSError as error:
                raise UsageError(f"--metrics-port {options.metrics_port}: {error.strerror}") from error
            return metrics
        case _:
            return None


@contextmanager
def _janitor(options: ScalerOptions, client: RedisClient, broker_url: str) -> Iterator[None]:
    if not options.janitor:
        yield
        return
    store = Settings.from_environment().store
    if store is None:
        raise UsageError("--janitor: MST_STORE is not set; a shard's manifest is looked for before it is sent again")
    janitor = Janitor(
        owner=f"scaler-{socket.gethostname()}-{os.getpid()}",
        book=DispatchBook(client),
        ledger=Ledger(client),
        presence=Presence(client),
        store=open_store(store),
        send=celery_sender(make_app(broker_url)),
        every_s=JANITOR_EVERY_S,
        settle_s=DEFAULT_LEASE_TTL_S,
    )
    janitor.start()
    try:
        yield
    finally:
        janitor.stop()


def _end_on_signals() -> threading.Event:
    ended = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: ended.set())
    return ended
