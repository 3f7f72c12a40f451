"""What `mst ps` shows: dispatches that are not closed, and who works on their shards."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from mst.fleet.dispatch_book import DispatchBook
from mst.fleet.ledger_records import Head
from mst.fleet.ledger_states import HELD, Entry

SHOWN_SHARDS = 200


@dataclass(frozen=True, kw_only=True)
class ShardInFlight:
    """A shard that somebody works on.

    Attributes:
        lease_left_s: negative when the lease has run out.
    """

    shard: int
    state: str
    attempt: str
    worker: str
    done: int
    units: int
    lease_left_s: float


@dataclass(frozen=True, kw_only=True)
class DispatchInFlight:
    """One dispatch that is not closed.

    Attributes:
        shards: how many are in each state.
        done: units that are durable, of `units`.
        in_flight: at most 200 of the shards that somebody works on.
    """

    run_id: str
    dispatch: str
    work: str
    eval_name: str
    queue: str
    deadline: datetime
    shards: dict[str, int]
    units: int
    done: int
    cancel: str
    in_flight: list[ShardInFlight]

    def to_dict(self) -> dict[str, Any]:
        """As `--json` prints it."""
        return {
            "runId": self.run_id,
            "dispatch": self.dispatch,
            "work": self.work,
            "eval": self.eval_name,
            "queue": self.queue,
            "deadline": self.deadline.isoformat(),
            "shards": self.shards,
            "units": self.units,
            "done": self.done,
            "cancel": self.cancel or None,
            "inFlight": [
                {
                    "shard": one.shard,
                    "state": one.state,
                    "attempt": one.attempt,
                    "worker": one.worker,
                    "done": one.done,
                    "units": one.units,
                    "leaseLeftS": round(one.lease_left_s, 1),
                }
                for one in self.in_flight
            ],
        }


def in_flight(book: DispatchBook) -> list[DispatchInFlight]:
    """Every dispatch that is not closed, by name. Not one moment's picture; what cannot be read is passed over.

    Raises:
        BrokerError: no answer.
    """
    now_ms = book.now_ms()
    return list(book.read_open(lambda head: _dispatch(head, dict(book.entries(head)), now_ms)))


def _dispatch(head: Head, entries: dict[int, Entry], now_ms: int) -> DispatchInFlight:
    held = [(shard, entry) for shard, entry in sorted(entries.items()) if entry.state in HELD]
    return DispatchInFlight(
        run_id=head.run_id,
        dispatch=head.dispatch,
        work=head.work,
        eval_name=head.eval_name,
        queue=head.queue,
        deadline=head.deadline,
        shards=dict(sorted(Counter(entry.state.value for entry in entries.values()).items())),
        units=sum(entry.units for entry in entries.values()),
        done=sum(min(entry.done, entry.units) for entry in entries.values()),
        cancel=head.cancel,
        in_flight=[
            ShardInFlight(
                shard=shard,
                state=entry.state.value,
                attempt=entry.attempt_id,
                worker=entry.worker,
                done=entry.done,
                units=entry.units,
                lease_left_s=(entry.lease_until_ms - now_ms) / 1000,
            )
            for shard, entry in held[:SHOWN_SHARDS]
        ],
    )
