"""Dispatches in the ledger: written before the first message, read by janitors, followed by coordinators."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from typing import TypeVar

import structlog

from mst.errors import MstError
from mst.fleet.connect import RedisClient, broker_errors
from mst.fleet.ledger import Ledger
from mst.fleet.ledger_keys import DEFAULT_PREFIX, Keys
from mst.fleet.ledger_records import (
    EntrySeed,
    Head,
    LedgerEvent,
    entry_args,
    entry_of,
    event_of,
    head_args,
    head_of,
    milliseconds,
)
from mst.fleet.ledger_states import Entry, Reply
from mst.fleet.scripts import RETENTION_MS, Scripts
from mst.model.fleet import ShardRef, Signed

log = structlog.get_logger(__name__)

ReadT = TypeVar("ReadT")
CHUNK = 100
EVENTS_A_READ = 500


class DispatchBook:
    """Writes, reads, cancels and closes dispatches. Thread-safe; errors as in `Ledger`."""

    def __init__(self, client: RedisClient, prefix: str = DEFAULT_PREFIX) -> None:
        self.keys = Keys(prefix)
        self._client = client
        self._scripts = Scripts(client)
        self._ledger = Ledger(client, prefix)

    def write_dispatch(self, head: Head, seeds: Iterable[EntrySeed]) -> int:
        """For a coordinator, before its first message and after a wipe: all entries, then the head.

        Idempotent: what is there already is kept. Until the head is written every move answers `unknown`.

        Returns:
            How many entries were new.
        """
        keep_until = max(milliseconds(head.deadline), self.now_ms()) + RETENTION_MS
        created, rest = 0, iter(seeds)
        while chunk := list(islice(rest, CHUNK)):
            keys = [self.keys.shards(head.scope), *(self.keys.entry(head.scope, seed.shard) for seed in chunk)]
            args: list[str | int] = [keep_until]
            for seed in chunk:
                args += entry_args(seed)
            created += int(self._scripts.run("write_entries", keys, args, doing=f"writing {head.scope}"))
        self._scripts.run(
            "open_dispatch",
            [self.keys.head(head.scope), self.keys.dispatches()],
            [keep_until, head.scope, *head_args(head)],
            doing=f"writing {head.scope}",
        )
        return created

    def close_dispatch(self, scope: str) -> None:
        """For a coordinator, after `closed.json`: no attempt is granted any more and janitors leave it alone."""
        keys = [self.keys.head(scope), self.keys.dispatches()]
        self._scripts.run("close_dispatch", keys, [scope], doing=f"closing {scope}")

    def cancel(self, head: Head, reason: str) -> dict[int, Reply]:
        """For `mst cancel` and Ctrl-C: flags the dispatch and ends what nobody holds; workers see it when they renew.

        Returns:
            The ledger's reply for each shard.
        """
        return {shard: self._ledger.cancel(head.ref(shard), reason) for shard in self.shards(head.scope)}

    def open_dispatches(self) -> list[str]:
        """For janitors: scopes of the dispatches that were not closed."""
        with broker_errors("reading open dispatches"):
            return list(self._client.zrange(self.keys.dispatches(), 0, -1))

    def read_open(self, read: Callable[[Head], ReadT]) -> Iterator[ReadT]:
        """What is read of each open dispatch, by name. One that cannot be read does not hide the others; a warning.

        Raises:
            BrokerError: no answer.
        """
        for scope in sorted(self.open_dispatches()):
            try:
                head = self.head(scope)
                if head is None or head.closed:
                    continue
                found = read(head)
            except (MstError, ValueError) as error:
                self.now_ms()  # raises when it is the broker that fails
                log.warning("dispatch_unreadable", scope=scope[:100], reason=str(error)[:300])
            else:
                yield found

    def head(self, scope: str) -> Head | None:
        """A dispatch's head; None when Redis knows nothing of it.

        Raises:
            BrokerError: no answer, or somebody else wrote there.
        """
        with broker_errors(f"reading {scope}"):
            found = self._client.hgetall(self.keys.head(scope))
        return head_of(found, scope) if found else None

    def shards(self, scope: str) -> list[int]:
        """The numbers of a dispatch's shards, ascending."""
        with broker_errors(f"reading {scope}"):
            return [int(one) for one in self._client.zrange(self.keys.shards(scope), 0, -1)]

    def entries(self, head: Head) -> Iterator[tuple[int, Entry]]:
        """All entries, read a hundred at a time; not one moment's picture. Missing ones are passed over."""
        shards = iter(self.shards(head.scope))
        while chunk := list(islice(shards, CHUNK)):
            with broker_errors(f"reading {head.scope}"):
                pipe = self._client.pipeline(transaction=False)
                for shard in chunk:
                    pipe.hgetall(self.keys.entry(head.scope, shard))
                    pipe.smembers(self.keys.flight(head.scope, shard))
                    pipe.hgetall(self.keys.crashes(head.scope, shard))
                rows = pipe.execute()
            for at, shard in enumerate(chunk):
                fields, flight, crashes = rows[3 * at : 3 * at + 3]
                if fields:
                    yield shard, entry_of(head, fields, flight, crashes)

    def envelope(self, ref: ShardRef) -> Signed | None:
        """The signed envelope that a shard is sent with; None when Redis knows nothing of it."""
        with broker_errors(f"reading {ref}"):
            text = self._client.hget(self.keys.entry(ref.scope, ref.shard), "envelope")
        return None if text is None else Signed.model_validate_json(text)

    def events(self, scope: str, *, after: str = "0-0", wait_s: float = 0.0) -> list[LedgerEvent]:
        """For whoever shows progress: events after a place, at most 500, oldest first.

        Blocks up to `wait_s` for the first (keep it below the client's time limit). The stream is capped at about
        10,000; a reader that fell behind reads the entries instead.
        """
        key = self.keys.events(scope)
        with broker_errors(f"following {scope}"):
            block = max(1, int(wait_s * 1000)) if wait_s > 0 else None
            found = self._client.xread({key: after}, count=EVENTS_A_READ, block=block)
        return [event_of(place, fields) for _, lines in found or [] for place, fields in lines]

    def now_ms(self) -> int:
        """Redis' clock."""
        with broker_errors("reading the broker's clock"):
            seconds, micros = self._client.time()
        return int(seconds) * 1000 + int(micros) // 1000
