"""Leftovers in the broker: what is kept of dispatches that are over, their messages, and workers that are gone.

All of it but the messages goes by itself, days later. Nothing here is needed for a result: results are in the store.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Any, Literal

import structlog

from mst.errors import BrokerError
from mst.fleet.connect import RedisClient, broker_errors
from mst.fleet.dispatch_book import DispatchBook
from mst.fleet.ledger_keys import DEFAULT_PREFIX, Keys
from mst.fleet.ledger_states import HELD

log = structlog.get_logger(__name__)

SCAN = 1000
MESSAGES_MAX = 20_000
"""Messages of one queue that are looked at; a longer queue is looked at again the next time."""

Kind = Literal["dispatch", "entry", "grant", "message", "worker", "drain"]


@dataclass(frozen=True)
class Leftover:
    """Something that may go.

    Attributes:
        name: the dispatch, task or worker.
        place: the Redis key that it is, or is in.
        member: what of the place goes; all of it without.
    """

    kind: Kind
    name: str
    why: str
    place: str
    member: str = ""

    def to_dict(self) -> dict[str, Any]:
        """As `--json` prints it: without the text of a message."""
        found = asdict(self)
        del found["member"]
        return found


class Leftovers:
    """Finds and removes leftovers under one prefix. Raises `BrokerError` when Redis does not answer.

    Safe beside a fleet at work: a dispatch that is open, or of which a worker holds a shard, is left alone, and so is
    what runs have spent, which a resume goes on from.
    """

    def __init__(self, client: RedisClient, prefix: str = DEFAULT_PREFIX) -> None:
        self._client = client
        self._keys = Keys(prefix)
        self._book = DispatchBook(client, prefix)

    def find(self) -> Iterator[Leftover]:
        """What may go, in the order in which to remove it. Changes nothing. Not one moment's picture."""
        now_ms = self._book.now_ms()
        over = {}
        for key in self._scan("{*}:head"):
            scope = key.removeprefix(f"{self._keys.prefix}{{").removesuffix("}:head")
            if self._is_over(scope, now_ms):
                over[scope] = key
        for scope, key in over.items():
            yield from self._of_dispatch(scope, key)
        yield from self._lost_entries()
        yield from self._messages(over)
        yield from self._workers(now_ms)

    def remove(self, found: Leftover) -> bool:
        """Remove one; False when it was gone already. Idempotent."""
        with broker_errors(f"removing {found.name}"):
            if found.kind == "message":
                return bool(self._client.lrem(found.place, 1, found.member))
            if found.kind == "worker":
                # by time: one that announced itself meanwhile has a later one
                return bool(self._client.zremrangebyscore(found.place, "-inf", found.member))
            if found.kind == "entry":
                return bool(self._client.zrem(found.place, found.member))
            return bool(self._client.unlink(found.place))

    def _scan(self, pattern: str) -> Iterator[str]:
        with broker_errors("looking for leftovers"):
            yield from self._client.scan_iter(match=f"{self._keys.prefix}{pattern}", count=SCAN)

    def _is_over(self, scope: str, now_ms: int) -> bool:
        """Whether a dispatch is closed and nobody holds a shard of it. One that cannot be read goes by itself later."""
        try:
            head = self._book.head(scope)
            # a key's name is not believed: what stands in the head was checked, and is a plain name
            if head is None or head.scope != scope or not head.closed:
                return False
            return not any(entry.state in HELD and entry.has_lease(now_ms) for _, entry in self._book.entries(head))
        except BrokerError as error:
            self._book.now_ms()  # raises when it is the broker that fails
            log.warning("dispatch_unreadable", scope=scope[:100], reason=str(error)[:300])
            return False

    def _of_dispatch(self, scope: str, head: str) -> Iterator[Leftover]:
        # the head first: without it no script writes any of the others again
        yield Leftover("dispatch", scope, "closed", head)
        for key in sorted({*self._scan(f"{{{scope}}}:*")} - {head}):
            yield Leftover("dispatch", scope, "closed", key)
        for key in self._scan(f"grant:{scope}"):
            yield Leftover("grant", scope, "closed", key)

    def _lost_entries(self) -> Iterator[Leftover]:
        place = self._keys.dispatches()
        for scope in self._book.open_dispatches():
            with broker_errors(f"reading {scope}"):
                there = self._client.exists(self._keys.head(scope))
            if not there:
                yield Leftover("entry", scope, "listed as open, and nothing is known of it", place, scope)

    def _messages(self, over: dict[str, str]) -> Iterator[Leftover]:
        for key in self._scan("mst.*"):
            with broker_errors(f"reading {key}"):
                texts = self._client.lrange(key, 0, MESSAGES_MAX - 1) if self._client.type(key) == "list" else []
            for text in texts:
                task_id = _task_id(text)
                scope = task_id.rsplit(".", 2)[0]
                if scope in over:
                    yield Leftover("message", task_id, "its dispatch is closed", key, text)

    def _workers(self, now_ms: int) -> Iterator[Leftover]:
        live: set[str] = set()
        for key in self._scan("workers:*"):
            queue = key.removeprefix(self._keys.workers(""))
            with broker_errors(f"looking at {queue}"):
                gone = self._client.zrangebyscore(key, "-inf", now_ms)
                live |= set(self._client.zrangebyscore(key, f"({now_ms}", "+inf"))
            for name in gone:
                yield Leftover("worker", name, f"is no longer seen at {queue}", key, str(now_ms))
        for key in self._scan("drain:*"):
            name = key.removeprefix(self._keys.drain(""))
            if name not in live:
                yield Leftover("drain", name, "was asked to end, and has", key)


def _task_id(text: str) -> str:
    """A Celery message's task ID; empty when it is something else."""
    try:
        found = json.loads(text)["headers"]["id"]
    except (ValueError, KeyError, TypeError):
        return ""
    return found if isinstance(found, str) else ""
