"""A worker process: Celery with the settings that shards need, a live key for each queue, and a janitor."""

from __future__ import annotations

import os
import signal
import socket
import tempfile
import threading
import time
from collections.abc import Mapping, Sequence
from contextlib import nullcontext, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import structlog

from mst import __version__
from mst.config.settings import Settings
from mst.errors import BrokerError, UsageError
from mst.fleet.app import CeleryApp, make_app, without_celery_environment, worker_argv
from mst.fleet.broker_check import START_S, check_broker
from mst.fleet.confine import ShardBounds, container
from mst.fleet.connect import connect
from mst.fleet.dispatch_book import DispatchBook
from mst.fleet.extras import need
from mst.fleet.faults import FleetFaults
from mst.fleet.grants import GrantSlots
from mst.fleet.host import Host, celery_sender
from mst.fleet.janitor import Janitor
from mst.fleet.ledger import Ledger
from mst.fleet.ledger_keys import DEFAULT_PREFIX
from mst.fleet.limiter import FleetLimiter
from mst.fleet.logs import log_for_machines
from mst.fleet.machine import NoMachine, open_machine
from mst.fleet.metrics import Uncounted, WorkerMetrics, serve
from mst.fleet.presence import Presence
from mst.fleet.queues import served_queues
from mst.fleet.refusals import RefusalBook
from mst.fleet.room import MIN_FREE_BYTES, Room
from mst.fleet.rotation import FileKey, FileVerifier
from mst.fleet.scratch import own_scratch
from mst.fleet.spend import FleetSpend
from mst.fleet.spot import GRACE_S, Keeper, Watch
from mst.fleet.task import handle
from mst.fleet.tokens import TokenSlots
from mst.model.shard import Work
from mst.process import tracing
from mst.process.group import MARK, new_mark
from mst.process.removal import remove_tree
from mst.shards.container_channel import Machine
from mst.shards.spare import Spare
from mst.shards.worker import kill_own_programs
from mst.store.session import session_store
from mst.store.uri import open_store

PRESENT_S = 30.0
LOOK_EVERY_S = 1.0
"""How often a worker looks whether its broker still knows of it."""
STORE_PATIENCE_S = 3600.0
LIMIT_ANSWER_S = 5.0
"""Nothing starts while an answer is waited for; asking again is cheap."""
EXIT_ORPHANED = 70

log = structlog.get_logger(__name__)


@dataclass(frozen=True, kw_only=True)
class WorkerOptions:
    """How a worker is started.

    Attributes:
        works: kinds of work that it takes.
        slots: shards at a time.
        trusted: shards run as plain processes of this user; without isolation only a trusted fleet may.
        shard_image: each shard runs in a container of this image instead.
        with_stdin: end at once when stdin closes, as an embedded worker does with its coordinator.
        janitor_every_s, settle_s: see `Janitor`.
        store_patience_s: how long finished units wait for a store that does not answer.
        hurry_after_s: how long units in flight may go on after a second SIGTERM.
        image: digest of the image that it runs in: what demands that image comes to it, too.
        cloud: whose machine this is: heed its notices, protect it while it is busy, end it when it is idle.
        idle_s: end the machine after so long without a shard; never by default.
        metrics_port: serve `/metrics` there.
        bounds: what one shard may use of the machine.
        min_free_bytes: no shard is taken while less than this is free where the shards' files lie.
    """

    works: Sequence[Work] = ("collect", "grade")
    worker_class: str | None = None
    image: str | None = None
    slots: int = 1
    name: str | None = None
    trusted: bool = False
    shard_image: str | None = None
    with_stdin: bool = False
    log_level: str = "INFO"
    janitor_every_s: float = 10.0
    settle_s: float = 120.0
    store_patience_s: float = STORE_PATIENCE_S
    hurry_after_s: float = GRACE_S
    cloud: Literal["aws", "gcp"] | None = None
    idle_s: float | None = None
    metrics_port: int | None = None
    metrics_address: str = "127.0.0.1"
    bounds: ShardBounds = field(default_factory=ShardBounds)
    min_free_bytes: int = MIN_FREE_BYTES

    def queues(self) -> list[str]:
        """The queues that it serves: of this version only, so that no other version's message is taken."""
        return served_queues(self.works, mst_version=__version__, worker_class=self.worker_class, image=self.image)


def run_worker(options: WorkerOptions, settings: Settings) -> int:
    """Serve shards until asked to end; returns the exit code. Owns the process.

    The first SIGTERM lets the units under way finish and gives their shards back; after a second one they have 60 s.

    Raises:
        UsageError: a setting is missing, or the fleet is not trusted.
        BrokerError: the broker is unreachable or unfit.
    """
    broker_url, store_uri = _required(options, settings)
    machine = None
    if options.shard_image is not None:
        machine = container(options.shard_image, options.bounds)
    else:
        options.bounds.check(Path(tempfile.gettempdir()))
    Room(Path(tempfile.gettempdir()), options.min_free_bytes).check()
    for warning in check_broker(broker_url, patience_s=START_S).warnings:
        log.warning("broker", warning=warning)
    os.umask(0o077)
    log_for_machines(options.log_level)
    tracing.configure("mst-worker")
    # before the library is there: it looks at some of them once
    without_celery_environment(os.environ)
    need("celery")
    name = options.name or f"{socket.gethostname()}-{os.getpid()}"
    # what runs here is found by this mark, whatever session it moved to
    os.environ[MARK] = new_mark()
    with own_scratch() as scratch:
        app, host, presence, keeper = _host(options, settings, broker_url, store_uri, name, scratch, machine)
        janitor = Janitor(
            owner=name,
            book=host.book,
            ledger=host.ledger,
            presence=presence,
            store=host.store,
            send=host.send,
            every_s=options.janitor_every_s,
            settle_s=options.settle_s,
        )
        here = _Here(presence, name, options.queues(), host.room)
        _drain_on_shutdown(host, here, options.hurry_after_s)
        if options.with_stdin:
            threading.Thread(target=_end_with_stdin, args=(scratch,), daemon=True, name="mst-stdin").start()
        here.start()
        janitor.start()
        keeper.start()
        try:
            with host.spare or nullcontext():
                return _serve(app, options, name)
        finally:
            keeper.stop()
            here.join()
            janitor.stop()
            host.limiter.close()
            keeper.finish()


def _required(options: WorkerOptions, settings: Settings) -> tuple[str, str]:
    if not options.trusted and options.shard_image is None:
        raise UsageError(
            "shards run here as plain processes, which see this machine: give each a container with --shard-image "
            "IMAGE, or start with --trusted where everyone who may sign for the fleet may also run code on its workers"
        )
    if settings.broker_url is None:
        raise UsageError("MST_BROKER_URL is not set: it names the broker, as redis://:PASSWORD@HOST:6379/0")
    if settings.store is None:
        raise UsageError("MST_STORE is not set: it names the result store, as s3://BUCKET/PREFIX or file:PATH")
    if settings.fleet_key_file is None:
        raise UsageError("MST_FLEET_KEY_FILE is not set: it names the fleet's private key ('mst fleet keygen')")
    if settings.trusted_signers_file is None:
        raise UsageError("MST_TRUSTED_SIGNERS_FILE is not set: it names the signers to accept ('mst fleet keygen')")
    return settings.broker_url, settings.store


def _host(
    options: WorkerOptions,
    settings: Settings,
    broker_url: str,
    store_uri: str,
    name: str,
    scratch: Path,
    machine: Machine | None,
) -> tuple[CeleryApp, Host, Presence, Keeper]:
    assert settings.fleet_key_file is not None
    assert settings.trusted_signers_file is not None
    client = connect(broker_url)
    store = open_store(store_uri, patience_s=options.store_patience_s)
    sender = make_app(broker_url)
    host = Host(
        name=name,
        queues=frozenset(options.queues()),
        scratch=scratch,
        room=Room(scratch, options.min_free_bytes),
        store=store,
        store_uri=store.uri,
        verifier=FileVerifier(settings.trusted_signers_file),
        fleet_key=FileKey(settings.fleet_key_file),
        ledger=Ledger(client),
        book=DispatchBook(client),
        grants=GrantSlots(client, DEFAULT_PREFIX),
        send=celery_sender(sender),
        limiter=FleetLimiter(connect(broker_url, answer_s=LIMIT_ANSWER_S)),
        spend=lambda run_id: FleetSpend(client, run_id),
        faults=lambda scope: FleetFaults(client, scope),
        tokens=TokenSlots(client),
        refusals=RefusalBook(client),
        bounds=options.bounds,
        spare=Spare() if machine is None else None,
        container=machine,
        counts=_counts(options),
        store_with=lambda values: session_store(
            store_uri, values, environ=os.environ, patience_s=options.store_patience_s
        ),
    )
    keeper = _keeper(options, host)

    def task(raw: Mapping[str, Any]) -> None:
        with keeper.holding(), host.spare.pausing() if host.spare is not None else nullcontext():
            handle(host, raw)

    def may_take() -> bool:
        return host.room.lack() is None

    app = make_app(broker_url, task=task, refused=host.counts.message_refused, may_take=may_take)
    return app, host, Presence(client), keeper


def _counts(options: WorkerOptions) -> Uncounted:
    if options.metrics_port is None:
        return Uncounted()
    counts = WorkerMetrics()
    try:
        serve(counts.registry, port=options.metrics_port, address=options.metrics_address)
    except OSError as error:
        raise UsageError(f"--metrics-port {options.metrics_port}: {error.strerror}") from error
    return counts


def _keeper(options: WorkerOptions, host: Host) -> Keeper:
    machine = open_machine(options.cloud) if options.cloud is not None else NoMachine()
    # the first SIGTERM drains; see run_worker
    return Keeper(
        machine,
        Watch(idle_s=options.idle_s),
        drain=lambda: os.kill(os.getpid(), signal.SIGTERM),
        hurry=host.hurrying.set,
    )


def _serve(app: CeleryApp, options: WorkerOptions, name: str) -> int:
    argv = worker_argv(queues=options.queues(), slots=options.slots, name=name, log_level=options.log_level)
    workers: list[Any] = []

    def remember(sender: Any, **_given: object) -> None:
        workers.append(sender)

    # Celery says how its worker ended to its own command line only: a broken one would look like one that was drained
    need("celery.signals").worker_init.connect(remember, weak=False)
    try:
        app.worker_main(argv)
    except SystemExit as ended:
        return ended.code if isinstance(ended.code, int) else 1
    return (workers[0].exitcode or 0) if workers else 1


class _Here:
    """Keeps the live keys of a worker's queues, and says when it takes no shards although it is there."""

    def __init__(self, presence: Presence, name: str, queues: Sequence[str], room: Room) -> None:
        self._presence = presence
        self._name = name
        self._queues = queues
        self._room = room
        self._is_resting = False
        self._announced_at = -PRESENT_S
        self._is_silent = False
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._keep, daemon=True, name="mst-present")

    def start(self) -> None:
        self._announce()
        self._look_for_room()
        self._thread.start()

    def stop(self) -> None:
        """Take no more shards. Returns at once, since signal handlers call it; the keys go soon after."""
        self._ended.set()

    def join(self) -> None:
        """Wait until the keys are gone, or the broker did not answer."""
        self._ended.set()
        self._thread.join()

    def _keep(self) -> None:
        while not self._ended.wait(LOOK_EVERY_S):
            if time.monotonic() - self._announced_at >= PRESENT_S / 3:
                self._announce()
                self._heed()
            elif not self._is_known():
                self._announce()
            self._look_for_room()
        with suppress(BrokerError):
            for queue in self._queues:
                self._presence.leave(self._name, queue)

    def _look_for_room(self) -> None:
        lack = self._room.lack()
        if lack is not None:
            if not self._is_resting:
                log.warning("no_room", worker=self._name, reason=f"{lack}; no shard is taken until there is room")
            with suppress(BrokerError):
                self._presence.rest(self._name, lack, ttl_s=PRESENT_S)
        elif self._is_resting:
            log.info("room_again", worker=self._name)
            with suppress(BrokerError):
                self._presence.rest_no_more(self._name)
        self._is_resting = lack is not None

    def _heed(self) -> None:
        """End as on a first SIGTERM when an operator asked for it."""
        with suppress(BrokerError):
            if self._presence.is_asked_to_drain(self._name):
                log.info("drain_asked", worker=self._name)
                os.kill(os.getpid(), signal.SIGTERM)

    def _is_known(self) -> bool:
        with suppress(BrokerError):
            return self._presence.is_known(self._name, self._queues)
        return False

    def _announce(self) -> None:
        try:
            for queue in self._queues:
                self._presence.announce(self._name, queue, ttl_s=PRESENT_S)
        except BrokerError as error:
            if not self._is_silent:
                log.warning("not_announced", reason=str(error)[:300])
            self._is_silent = True
        else:
            self._announced_at = time.monotonic()
            self._is_silent = False


def _drain_on_shutdown(host: Host, here: _Here, hurry_after_s: float) -> None:
    signals = need("celery.signals")

    def shutting_down(**_given: object) -> None:
        if host.draining.is_set():
            hurry = threading.Timer(hurry_after_s, host.hurrying.set)
            hurry.daemon = True
            hurry.start()
            return
        host.counts.draining()
        host.draining.set()
        here.stop()

    signals.worker_shutting_down.connect(shutting_down, weak=False)


def _end_with_stdin(scratch: Path) -> None:
    """Wait until stdin closes, then end with everything that was started and written here."""
    # os.read: buffered reads of stdin hold a lock that the interpreter needs at its end
    while os.read(0, 1024):
        continue
    kill_own_programs()
    with suppress(OSError):
        remove_tree(scratch)
    os._exit(EXIT_ORPHANED)
