"""What must hold of everything that the fleet keeps in Redis, whatever happened before: looked at after each test."""

from __future__ import annotations

from collections.abc import Iterator

from mst.fleet.connect import RedisClient
from mst.fleet.dispatch_book import DispatchBook
from mst.fleet.ledger_keys import DEFAULT_PREFIX
from mst.fleet.ledger_machine import number_of
from mst.fleet.ledger_states import FINAL, HELD, Entry

CELERYS = ("mst.", "unacked", "_kombu", "celery")
"""What Celery keeps under our prefix, after the prefix: the queues, and its own books."""


def broken_rules(client: RedisClient) -> list[str]:
    """Rules of the ledger that do not hold, a line each; empty when all is well. Takes a moment's picture of no moment.

    Shards that move meanwhile are seen as they were or are; each entry is read at once.
    """
    return [*_of_entries(DispatchBook(client)), *_of_keys(client)]


def _of_entries(book: DispatchBook) -> Iterator[str]:
    for scope in book.open_dispatches():
        head = book.head(scope)
        for shard, entry in book.entries(head) if head is not None else ():
            for fault in faults_of(entry):
                yield f"{scope}.{shard} is {entry.state} {fault}"


def faults_of(entry: Entry) -> Iterator[str]:
    """What an entry holds that no sequence of moves may leave."""
    if not 0 <= entry.done <= entry.units:
        yield f"with {entry.done} of {entry.units} units done"
    if not 0 <= entry.idle <= entry.lost:
        yield f"with {entry.idle} attempts without a unit of {entry.lost} lost"
    if entry.state in FINAL and entry.open:
        yield "and has an open attempt"
    if entry.state in HELD and not entry.open:
        yield "and nobody has it"
    if not entry.open and (entry.in_flight or entry.lease_until_ms):
        yield "and has a lease or units in flight that are nobody's"
    if entry.attempt_id and number_of(entry.attempt_id) != entry.n:
        yield f"and its attempt {entry.attempt_id} is not number {entry.n}"


def _of_keys(client: RedisClient) -> Iterator[str]:
    for name in client.scan_iter(f"{DEFAULT_PREFIX}*", count=1000):
        own = name.removeprefix(DEFAULT_PREFIX)
        # -1: it never ends; -2: it ended just now
        if not own.startswith(CELERYS) and client.ttl(name) == -1:
            yield f"{name} never ends"
