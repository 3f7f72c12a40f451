"""What the ledger holds about dispatches, as values, and how they lie in Redis' hashes."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from types import MappingProxyType

from mst.errors import BrokerError
from mst.fleet.ledger_states import Entry, State, Terms
from mst.model.fleet import ShardLimits, ShardRef, Signed
from mst.model.keys import RunId
from mst.model.shard import Work


@dataclass(frozen=True)
class Head:
    """What the ledger knows about a whole dispatch."""

    run_id: RunId
    dispatch: str
    work: Work
    eval_name: str
    queue: str
    deadline: datetime
    limits: ShardLimits
    dispatch_uri: str
    """The dispatch's folder in the store: where a janitor looks for manifests."""
    cancel: str = ""
    closed: bool = False

    def ref(self, shard: int) -> ShardRef:
        """One of its shards."""
        return ShardRef(run_id=self.run_id, dispatch=self.dispatch, work=self.work, shard=shard)

    @property
    def scope(self) -> str:
        """`<run>.<dispatch>.<work>`."""
        return self.ref(0).scope

    @property
    def terms(self) -> Terms:
        """The part that the state machine uses."""
        return Terms(
            deadline_ms=milliseconds(self.deadline),
            lease_ttl_ms=int(self.limits.lease_ttl_s * 1000),
            attempts=self.limits.attempts,
            idle_attempts=self.limits.idle_attempts,
        )


@dataclass(frozen=True)
class EntrySeed:
    """How a shard's entry begins.

    After a wipe a coordinator fills the last three from the store: the highest attempt number, the durable units,
    and whether a complete manifest is there.
    """

    shard: int
    units: int
    envelope: Signed
    attempt_floor: int = 0
    done: int = 0
    committed: bool = False


@dataclass(frozen=True)
class LedgerEvent:
    """One line of a dispatch's event stream.

    Attributes:
        id: its place; pass the last one to `events` to read on.
        event: the move (`acquire`, `start`, `progress`, `give_back`, `finish`, `commit`, `expire`, `revive`, ...).
        done: durable units of the shard.
        worker: that holds the shard, or held it before the move.
    """

    id: str
    event: str
    shard: int
    state: State
    attempt_id: str
    done: int
    reason: str
    worker: str = ""


def entry_args(seed: EntrySeed) -> list[str | int]:
    """What `write_entries` takes for one entry."""
    state = State.COMMITTED if seed.committed else State.QUEUED
    envelope = seed.envelope.to_json().decode()
    return [seed.shard, state.value, seed.attempt_floor, seed.units, seed.done, envelope]


def head_args(head: Head) -> list[str | int]:
    """Fields and values of a head."""
    terms = head.terms
    fields: dict[str, str | int] = {
        "runId": head.run_id,
        "dispatch": head.dispatch,
        "work": head.work,
        "evalName": head.eval_name,
        "queue": head.queue,
        "deadline": head.deadline.isoformat(),
        "limits": head.limits.to_json().decode(),
        "dispatchUri": head.dispatch_uri,
        "deadlineMs": terms.deadline_ms,
        "leaseTtlMs": terms.lease_ttl_ms,
        "attempts": terms.attempts,
        "idleAttempts": terms.idle_attempts,
        "closed": "1" if head.closed else "0",
    }
    return [part for pair in fields.items() for part in pair]


def head_of(found: dict[str, str], scope: str) -> Head:
    """A head as read.

    Raises:
        BrokerError: damaged.
    """
    try:
        ref = ShardRef.model_validate(
            {"runId": found["runId"], "dispatch": found["dispatch"], "work": found["work"], "shard": 0}
        )
        return Head(
            run_id=ref.run_id,
            dispatch=ref.dispatch,
            work=ref.work,
            eval_name=found["evalName"],
            queue=found["queue"],
            deadline=datetime.fromisoformat(found["deadline"]),
            limits=ShardLimits.model_validate_json(found["limits"]),
            dispatch_uri=found["dispatchUri"],
            cancel=found.get("cancel", ""),
            closed=found.get("closed") == "1",
        )
    except (KeyError, ValueError) as error:
        raise BrokerError(f"the ledger's head of {scope} is damaged") from error


def entry_of(head: Head, fields: dict[str, str], flight: Iterable[str], crashes: dict[str, str]) -> Entry:
    """An entry as read.

    Raises:
        BrokerError: damaged.
    """
    try:
        return Entry(
            terms=head.terms,
            units=int(fields["units"]),
            state=State(fields["state"]),
            n=int(fields["n"]),
            attempt_id=fields["attemptId"],
            worker=fields["worker"],
            open=fields["open"] == "1",
            lease_until_ms=int(fields["leaseUntilMs"]),
            done=int(fields["done"]),
            done_at_grant=int(fields["doneAtGrant"]),
            lost=int(fields["lost"]),
            idle=int(fields["idle"]),
            in_flight=frozenset(flight),
            crashes=MappingProxyType({unit: int(count) for unit, count in crashes.items()}),
            reason=fields["reason"],
            cancel=head.cancel,
            closed=head.closed,
            sent_ms=int(fields["sentMs"]),
            sends=int(fields["sends"]),
        )
    except (KeyError, ValueError) as error:
        raise BrokerError(f"a ledger entry of {head.scope} is damaged") from error


def event_of(place: str, fields: dict[str, str]) -> LedgerEvent:
    """One event as read.

    Raises:
        BrokerError: damaged.
    """
    try:
        return LedgerEvent(
            id=place,
            event=fields["event"],
            shard=int(fields["shard"]),
            state=State(fields["state"]),
            attempt_id=fields["attemptId"],
            done=int(fields["done"]),
            reason=fields["reason"],
            worker=fields.get("worker", ""),
        )
    except (KeyError, ValueError) as error:
        raise BrokerError(f"an event {place} in the ledger is damaged") from error


def milliseconds(moment: datetime) -> int:
    """A moment as Redis' scripts count it."""
    return int(moment.timestamp() * 1000)
