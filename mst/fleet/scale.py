"""How many workers a fleet needs: the signal, read from the ledger, and the rule that makes a number of it.

Queue lengths say nothing: a message is a hint, and running shards have none. Counting what runs keeps a fleet from
shrinking under hour-long shards. The rule was chosen with `benchmarks/fleet_sim` (docs/adr/0011).
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from itertools import islice

from mst.errors import UsageError
from mst.fleet.connect import RedisClient, broker_errors
from mst.fleet.dispatch_book import DispatchBook
from mst.fleet.ledger_keys import DEFAULT_PREFIX
from mst.fleet.ledger_records import Head
from mst.fleet.ledger_states import HELD, State
from mst.fleet.presence import Presence

CHUNK = 500
_FIELDS = ("state", "leaseUntilMs", "sentMs")


@dataclass(frozen=True, kw_only=True)
class Signal:
    """What scaling is decided from, at one moment.

    Attributes:
        queued: shards that wait for a worker.
        running: shards that somebody holds.
        expired: of those, the ones whose lease has run out: their worker is gone or cut off.
        oldest_wait_s: since when the shard that waits longest was last sent; 0 when none waits.
        workers: worker processes that serve the queues.
        slots: shards that one worker takes at a time.
    """

    queued: int = 0
    running: int = 0
    expired: int = 0
    oldest_wait_s: float = 0.0
    workers: int = 0
    slots: int = 1

    @property
    def backlog(self) -> int:
        """Shards that are queued or running."""
        return self.queued + self.running

    @property
    def backlog_per_worker(self) -> float:
        """Backlog over slots; with no worker over one worker's slots, so that it is never infinite."""
        return self.backlog / (max(1, self.workers) * self.slots)


@dataclass(frozen=True, kw_only=True)
class Rule:
    """How a signal becomes a number of workers.

    Attributes:
        target: backlog per slot that is worth no further worker; 1 means a slot for each shard.
        least, most: bounds.
        step: workers that may be added at once, None for as many as needed.
    """

    target: float = 1.0
    least: int = 0
    most: int = 10
    step: int | None = None

    def __post_init__(self) -> None:
        if self.target <= 0 or not 0 <= self.least <= self.most or (self.step is not None and self.step < 1):
            raise UsageError("scaling rule: target above 0, 0 <= least <= most, step at least 1")

    def desired(self, signal: Signal) -> int:
        """The number of workers for a signal. Never fewer than shards are running on: those end by themselves.

        Zero only when nothing is queued and nothing runs.
        """
        needed = math.ceil(signal.backlog / (signal.slots * self.target))
        if self.step is not None:
            needed = min(needed, signal.workers + self.step)
        busy = math.ceil(signal.running / signal.slots)
        return max(self.least, min(self.most, max(needed, min(busy, signal.workers))))


def read_signal(client: RedisClient, queues: Sequence[str], *, slots: int = 1, prefix: str = DEFAULT_PREFIX) -> Signal:
    """The signal of some queues, read from the ledger's open dispatches; not one moment's picture, but close to it.

    A shard that waits for a token needs its coordinator, not a worker, and is not counted. Costs one round trip for
    each 500 shards.

    Raises:
        BrokerError: no answer.
    """
    book, presence = DispatchBook(client, prefix), Presence(client, prefix)
    now_ms = book.now_ms()
    queued = running = expired = 0
    oldest_ms = now_ms

    def read(head: Head) -> tuple[Head, list[tuple[str, int, int]]]:
        return head, list(_states(client, book, head.scope)) if head.queue in queues else []

    for head, states in book.read_open(read):
        for state, lease_until_ms, sent_ms in states:
            if state == State.QUEUED and not head.cancel:
                queued += 1
                oldest_ms = min(oldest_ms, sent_ms or now_ms)
            elif state in HELD:
                running += 1
                expired += lease_until_ms <= now_ms
    return Signal(
        queued=queued,
        running=running,
        expired=expired,
        oldest_wait_s=(now_ms - oldest_ms) / 1000,
        workers=len({name for queue in queues for name in presence.workers(queue)}),
        slots=slots,
    )


def _states(client: RedisClient, book: DispatchBook, scope: str) -> Iterator[tuple[str, int, int]]:
    shards = iter(book.shards(scope))
    while chunk := list(islice(shards, CHUNK)):
        with broker_errors(f"reading {scope}"):
            pipe = client.pipeline(transaction=False)
            for shard in chunk:
                pipe.hmget(book.keys.entry(scope, shard), _FIELDS)
            rows = pipe.execute()
        for state, lease_until_ms, sent_ms in rows:
            if state is not None:
                yield state, int(lease_until_ms or 0), int(sent_ms or 0)


def shown(signal: Signal, rule: Rule) -> dict[str, float | int]:
    """The signal as `--json` prints it, with what the rule makes of it."""
    return {
        **asdict(signal),
        "backlog": signal.backlog,
        "backlog_per_worker": round(signal.backlog_per_worker, 4),
        "desired": rule.desired(signal),
    }
