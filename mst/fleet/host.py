"""What a worker process has while it serves shards: its keys, its store, its ledger, and how it sends a shard again."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from mst.errors import BrokerError
from mst.fleet.confine import ShardBounds
from mst.fleet.dispatch_book import DispatchBook
from mst.fleet.extras import need
from mst.fleet.grants import GrantSlots
from mst.fleet.keys import Opener
from mst.fleet.ledger import Ledger
from mst.fleet.metrics import Uncounted
from mst.fleet.refusals import RefusalBook
from mst.fleet.room import Room
from mst.fleet.signing import Verifier
from mst.fleet.tokens import TokenSlots
from mst.model.fleet import Envelope, Hint, Message, Signed
from mst.shards.archive import Caps
from mst.shards.container_channel import Machine
from mst.shards.faults import JudgeFaults
from mst.shards.limiter import CallLimiter, LocalLimiter
from mst.shards.spare import Spare
from mst.shards.spend import LocalSpend, SpendLedger
from mst.store.contract import Store

Send = Callable[[Message, str, str], None]
"""Puts a message on a queue, under a task ID. Raises `BrokerError` when the broker does not take it."""

SHADOW_MAX = 300


@dataclass(frozen=True, kw_only=True)
class Host:
    """A worker's means. Shared by all its slots; everything in it is thread-safe.

    Attributes:
        name: of the worker, unique in the fleet.
        queues: that it serves; an envelope for another one is refused.
        scratch: private folder (0700) for the shards' files.
        room: whether the disk that it lies on has room for another shard.
        store_uri: where bundles and results must lie.
        send: sends a shard out again.
        draining: set when no further unit should start.
        hurrying: set when units in flight should end at once: the machine goes.
        caps: what it accepts of a bundle.
        silence_s: how long a shard worker may say nothing.
        limiter: gives turns for calls to providers and servers, over the whole fleet.
        spend: a run's spending, by run ID.
        faults: a dispatch's faults of judges, by its scope.
        bounds: what one shard may use of this machine.
        spare: keeps a shard worker ready for the next shard; without it one is started then.
        container: what each shard's container is made of; without it shards are child processes.
        refusals: where refused work is told to its coordinator.
        tokens: where credentials that expire are renewed; without it a shard stops before they do.
        counts: what its metrics count.
        store_with: opens the store with credentials of one shard rather than this machine's.
    """

    name: str
    queues: frozenset[str]
    scratch: Path
    room: Room
    store: Store
    store_uri: str
    verifier: Verifier
    fleet_key: Opener = field(repr=False)
    ledger: Ledger
    book: DispatchBook
    grants: GrantSlots
    send: Send
    draining: threading.Event = field(default_factory=threading.Event)
    hurrying: threading.Event = field(default_factory=threading.Event)
    caps: Caps = field(default_factory=Caps)
    silence_s: float = 60.0
    limiter: CallLimiter = field(default_factory=LocalLimiter)
    spend: Callable[[str], SpendLedger] = lambda _run_id: LocalSpend()
    faults: Callable[[str], JudgeFaults | None] = lambda _scope: None
    tokens: TokenSlots | None = None
    refusals: RefusalBook | None = None
    bounds: ShardBounds = field(default_factory=ShardBounds)
    spare: Spare | None = None
    container: Machine | None = None
    counts: Uncounted = field(default_factory=Uncounted)
    store_with: Callable[[Mapping[str, str]], Store] | None = None


def send_shard(send: Send, ledger: Ledger, signed: Signed, envelope: Envelope, attempt: int) -> None:
    """Put a shard's message on its queue and note that it was sent.

    Args:
        attempt: number of the attempt that the message is meant to start; only a hint.
    """
    message = Message(envelope=signed, hint=Hint(attempt=attempt))
    send(message, envelope.queue, f"{envelope.ref}.a{attempt}")
    ledger.mark_sent(envelope.ref)


def celery_sender(app: object) -> Send:
    """A `Send` through a Celery application.

    The task's name in Flower and in metric labels stays low-cardinality; run, shard and attempt are in its ID and its
    shown arguments. The real arguments hold references, digests and a signature, and no content.

    It connects at once, beside the caller: Celery takes a tenth of a second for its first message, when bundles lie
    there already.
    """
    kombu, redis = need("kombu.exceptions"), need("redis")
    failures = (kombu.KombuError, redis.RedisError, OSError)

    def connect() -> None:
        # one that fails is tried again by who sends, and told
        with suppress(*failures), app.producer_pool.acquire(block=True) as producer:  # type: ignore[attr-defined]  # as below
            producer.connection.ensure_connection(max_retries=1)

    connecting = threading.Thread(target=connect, daemon=True, name="mst-broker-connect")
    connecting.start()

    def send(message: Message, queue: str, task_id: str) -> None:
        connecting.join()
        payload = message.envelope.payload
        shown = f"<{payload['runId']} {payload['dispatch']} shard {payload['shard']} attempt {message.hint.attempt}>"
        try:
            app.send_task(  # type: ignore[attr-defined]  # a Celery application; the library is untyped
                "mst.shard",
                args=[message.to_dict()],
                queue=queue,
                task_id=task_id,
                shadow=f"{payload['work']}:{payload['evalName']}"[:SHADOW_MAX],
                argsrepr=shown,
                kwargsrepr="",
            )
        except failures as error:
            raise BrokerError(f"sending {task_id}: the broker does not take it") from error

    return send


LEASE_PARTS = 4
"""A lease is renewed this often within its life."""


def renewal_s(lease_ttl_s: float) -> float:
    """How long to wait between renewals."""
    return lease_ttl_s / LEASE_PARTS
