"""What `mst fleet status` shows: open dispatches by state, and who serves which queue."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from typing import Any

from mst.fleet.connect import RedisClient
from mst.fleet.dispatch_book import DispatchBook
from mst.fleet.ledger_keys import DEFAULT_PREFIX
from mst.fleet.ledger_records import Head
from mst.fleet.ledger_states import HELD, State
from mst.fleet.presence import Presence
from mst.fleet.scale import Signal, read_signal
from mst.report.figures import count, span

REASONS_MAX = 3


@dataclass(frozen=True, kw_only=True)
class OpenDispatch:
    """One dispatch that is not closed.

    Attributes:
        shards: how many are in each state.
        units: of all shards; `done` of them are durable.
        lapsed: held shards whose lease has run out.
        trouble: the commonest reasons for which shards were given back or failed.
    """

    scope: str
    eval_name: str
    queue: str
    deadline: str
    shards: dict[str, int]
    units: int
    done: int
    lapsed: int
    cancel: str
    trouble: list[str]


@dataclass(frozen=True, kw_only=True)
class Overview:
    """The fleet at one moment.

    Attributes:
        workers: who serves each queue.
        resting: those of them that take no shards now, with why.
    """

    signal: Signal
    workers: dict[str, list[str]]
    resting: dict[str, str]
    dispatches: list[OpenDispatch]

    def to_dict(self) -> dict[str, Any]:
        """As `--json` prints it."""
        return asdict(self)


def look(client: RedisClient, queues: Sequence[str], *, slots: int = 1, prefix: str = DEFAULT_PREFIX) -> Overview:
    """Read everything. All dispatches and all queues that anybody serves are listed; the signal is about those given.

    Raises:
        BrokerError: no answer.
    """
    book, presence = DispatchBook(client, prefix), Presence(client, prefix)
    found = list(book.read_open(lambda head: _dispatch(book, head)))
    names = sorted({*queues, *presence.served(), *(one.queue for one in found)})
    workers = {name: presence.workers(name) for name in names}
    return Overview(
        signal=read_signal(client, queues, slots=slots, prefix=prefix),
        workers=workers,
        resting=presence.resting(one for serving in workers.values() for one in serving),
        dispatches=found,
    )


def _dispatch(book: DispatchBook, head: Head) -> OpenDispatch:
    states: Counter[str] = Counter()
    reasons: Counter[str] = Counter()
    units = done = lapsed = 0
    now_ms = book.now_ms()
    for _, entry in book.entries(head):
        states[entry.state.value] += 1
        units, done = units + entry.units, done + entry.done
        lapsed += entry.state in HELD and not entry.has_lease(now_ms)
        if entry.reason and entry.state != State.COMMITTED:
            reasons[entry.reason] += 1
    return OpenDispatch(
        scope=head.scope,
        eval_name=head.eval_name,
        queue=head.queue,
        deadline=head.deadline.isoformat(),
        shards=dict(sorted(states.items())),
        units=units,
        done=done,
        lapsed=lapsed,
        cancel=head.cancel,
        trouble=[f"{reason} ({count})" for reason, count in reasons.most_common(REASONS_MAX)],
    )


def lines(found: Overview, *, now: datetime | None = None) -> list[str]:
    """For people: one line a queue, then one a worker that rests, then one a dispatch."""
    seen = found.signal
    oldest = f" (for up to {span(seen.oldest_wait_s)})" if seen.queued else ""
    told = [f"{count(seen.queued, 'shard')} queued{oldest}, {seen.running} running"]
    told += [f"{queue}: {', '.join(workers) or 'nobody'}" for queue, workers in found.workers.items()]
    told += [f"{worker} takes no shards: {why}" for worker, why in found.resting.items()]
    for one in found.dispatches:
        states = ", ".join(f"{count} {state}" for state, count in one.shards.items())
        until = _until(one.deadline, now or datetime.now(UTC))
        told.append(f"{one.scope} ({one.eval_name}): {states}; {one.done} of {one.units} units; {until}")
        if one.lapsed:
            have = "has" if one.lapsed == 1 else "have"
            told.append(f"  {count(one.lapsed, 'lease')} {have} run out: the worker is gone or cut off from the broker")
        if one.cancel:
            told.append(f"  is being cancelled: {one.cancel}")
        told += [f"  {reason}" for reason in one.trouble]
        if one.shards.get("queued") and not found.workers.get(one.queue):
            told.append(f"  nobody serves {one.queue}")
    return told


def _until(deadline: str, now: datetime) -> str:
    """A deadline by this machine's clock, and how far off it is."""
    moment = datetime.fromisoformat(deadline)
    left_s = (moment - now).total_seconds()
    clock = f"{moment.astimezone():%Y-%m-%d %H:%M}"
    if left_s <= 0:
        return f"its deadline passed {span(-left_s)} ago ({clock})"
    return f"until {clock}, for {span(left_s)} more"
