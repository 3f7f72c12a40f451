"""What an event does to a shard's entry: pure functions of entry, event and time.

Redis runs the same moves as Lua scripts (`lua/`), which get `TRANSITIONS` from the same table; a property test
drives both and compares them after every move.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from types import MappingProxyType
from typing import Any

from mst.errors import InvariantError
from mst.fleet.ledger_states import (
    BACKS_OFF,
    FINAL,
    HELD,
    TRANSITIONS,
    UNCOUNTED,
    Acquire,
    Cancel,
    Commit,
    Entry,
    Event,
    Expire,
    Finish,
    GiveBack,
    GiveUp,
    Progress,
    Renew,
    Reply,
    Requeue,
    Sent,
    Start,
    State,
)


def decide(entry: Entry, event: Event, now_ms: int) -> tuple[Entry, Reply]:
    """What an event does to an entry. Total: every event has an answer in every state.

    Raises:
        InvariantError: the move is not in `TRANSITIONS`; a fault in this module.
    """
    name, move = _MOVES[type(event)]
    after, reply = move(entry, event, now_ms)
    if after != entry and after.state not in TRANSITIONS[name].get(entry.state, frozenset()):
        raise InvariantError(f"{name} moved a shard from {entry.state} to {after.state}")
    return after, replace(reply, cancel=_cancel_of(after, now_ms))


def settle(entry: Entry) -> Entry:
    """Count the open attempt as lost: its units in flight may be what killed it."""
    if not entry.open:
        return entry
    crashes = {**entry.crashes, **{unit: entry.crashes.get(unit, 0) + 1 for unit in entry.in_flight}}
    idle = 0 if entry.done > entry.done_at_grant else entry.idle + 1
    return replace(_end(entry), lost=entry.lost + 1, idle=idle, crashes=MappingProxyType(crashes))


def is_past_limit(entry: Entry) -> bool:
    """Whether no attempt is left, the open one counted as lost."""
    after = settle(entry)
    return after.lost >= entry.terms.attempts or after.idle >= entry.terms.idle_attempts


def _end(entry: Entry) -> Entry:
    return replace(entry, open=False, worker="", lease_until_ms=0, in_flight=frozenset())


def _cancel_of(entry: Entry, now_ms: int) -> str:
    return entry.cancel or ("deadline" if now_ms > entry.terms.deadline_ms else "")


def _lost(entry: Entry, attempt_id: str) -> Reply:
    if entry.state in FINAL:
        return Reply("lost", why=entry.state.value)
    return Reply("lost", why="given_back" if attempt_id == entry.attempt_id else "superseded")


def _acquire(entry: Entry, event: Acquire, now_ms: int) -> tuple[Entry, Reply]:
    if entry.has_lease(now_ms) and entry.attempt_id == f"{entry.n}-{event.token}":
        return entry, Reply("granted", attempt_id=entry.attempt_id, poison=entry.poison())
    why = _why_not(entry, now_ms)
    if why:
        return entry, Reply("refused", why=why)
    settled = settle(entry)
    granted = replace(
        settled,
        state=State.LEASED,
        n=entry.n + 1,
        attempt_id=f"{entry.n + 1}-{event.token}",
        worker=event.worker,
        open=True,
        lease_until_ms=now_ms + entry.terms.lease_ttl_ms,
        done_at_grant=entry.done,
        reason="",
    )
    return granted, Reply("granted", attempt_id=granted.attempt_id, poison=granted.poison())


def _why_not(entry: Entry, now_ms: int) -> str:
    if entry.state in FINAL or entry.state is State.WAITING_TOKEN:
        return entry.state.value
    if entry.has_lease(now_ms):
        return "leased"
    if entry.closed or entry.cancel:
        return "closed" if entry.closed else "cancelled"
    if now_ms > entry.terms.deadline_ms:
        return "deadline"
    return "past_limit" if is_past_limit(entry) else ""


def _start(entry: Entry, event: Start, now_ms: int) -> tuple[Entry, Reply]:
    del now_ms
    if not entry.is_mine(event.attempt_id) or entry.state not in HELD:
        return entry, _lost_or_lapsed(entry, event.attempt_id)
    return replace(entry, state=State.RUNNING), Reply("yes")


def _lost_or_lapsed(entry: Entry, attempt_id: str) -> Reply:
    # Mine and queued: the lease ran out before the start. A renewal brings it back.
    return Reply("ignored", why="lapsed") if entry.is_mine(attempt_id) else _lost(entry, attempt_id)


def _renew(entry: Entry, event: Renew, now_ms: int) -> tuple[Entry, Reply]:
    until = now_ms + entry.terms.lease_ttl_ms
    if entry.state in FINAL or entry.state is State.WAITING_TOKEN:
        return entry, _lost(entry, event.attempt_id)
    if entry.is_mine(event.attempt_id):
        alive = entry.has_lease(now_ms)
        state = State.RUNNING if entry.state is State.QUEUED else entry.state
        after = replace(entry, state=state, lease_until_ms=until)
        return after, Reply("yes" if alive else "revived")
    if not _is_from_before_a_wipe(entry, event.attempt_id):
        return entry, _lost(entry, event.attempt_id)
    after = replace(
        settle(entry),
        state=State.RUNNING,
        n=number_of(event.attempt_id),
        attempt_id=event.attempt_id,
        open=True,
        lease_until_ms=until,
        done_at_grant=entry.done,
    )
    return after, Reply("revived")


def number_of(attempt_id: str) -> int:
    """The number in an attempt ID `<n>-<16 hex>`."""
    return int(attempt_id.partition("-")[0])


def _is_from_before_a_wipe(entry: Entry, attempt_id: str) -> bool:
    # A rebuilt entry knows only the numbers that left something in the store.
    number = number_of(attempt_id)
    return number > entry.n or (number == entry.n and not entry.attempt_id)


def _progress(entry: Entry, event: Progress, now_ms: int) -> tuple[Entry, Reply]:
    del now_ms
    if not entry.is_mine(event.attempt_id) or entry.state in FINAL:
        return entry, _lost(entry, event.attempt_id)
    done = max(entry.done, min(event.done, entry.units))
    after = replace(
        entry,
        done=done,
        sends=0 if done > entry.done else entry.sends,
        in_flight=(entry.in_flight | event.started) - event.finished,
    )
    return after, Reply("yes")


def _give_back(entry: Entry, event: GiveBack, now_ms: int) -> tuple[Entry, Reply]:
    if event.attempt_id == entry.attempt_id and not entry.open and entry.state not in {State.COMMITTED, State.FAILED}:
        return entry, Reply("yes")
    if not entry.is_mine(event.attempt_id) or entry.state in FINAL:
        return entry, _lost(entry, event.attempt_id)
    if event.reason in UNCOUNTED:
        ended = replace(_end(entry), idle=0 if entry.done > entry.done_at_grant else entry.idle)
    else:
        ended = settle(entry)
    waits = event.reason == State.WAITING_TOKEN and entry.state is State.RUNNING
    state = State.CANCELLED if entry.cancel else State.WAITING_TOKEN if waits else State.QUEUED
    slow = event.reason in BACKS_OFF
    after = replace(
        ended,
        state=state,
        reason=event.reason,
        sends=max(entry.sends, 1) if slow else 0,
        sent_ms=now_ms if slow else 0,
    )
    return after, Reply("yes")


def _finish(entry: Entry, event: Finish, now_ms: int) -> tuple[Entry, Reply]:
    del now_ms
    if event.attempt_id == entry.attempt_id and entry.state is event.to:
        return entry, Reply("yes")
    if not entry.is_mine(event.attempt_id) or entry.state in FINAL:
        return entry, _lost(entry, event.attempt_id)
    return replace(_end(entry), state=event.to, reason=event.reason), Reply("yes")


def _commit(entry: Entry, event: Commit, now_ms: int) -> tuple[Entry, Reply]:
    del now_ms
    if entry.state is State.COMMITTED:
        return entry, Reply("yes")
    done = max(entry.done, min(event.done, entry.units))
    return replace(_end(entry), state=State.COMMITTED, done=done, reason=""), Reply("yes")


def _expire(entry: Entry, event: Expire, now_ms: int) -> tuple[Entry, Reply]:
    held = entry.state in HELD and event.attempt_id == entry.attempt_id
    if not held or (entry.has_lease(now_ms) and not event.died):
        return entry, Reply("ignored")
    if entry.cancel:
        return replace(_end(entry), state=State.CANCELLED, reason=entry.cancel), Reply("cancelled")
    ended = settle(entry) if event.died else replace(entry, lease_until_ms=0)
    after = replace(ended, state=State.QUEUED, reason="died" if event.died else "lapsed", sends=0, sent_ms=0)
    return after, Reply("past_limit" if is_past_limit(after) else "queued")


def _give_up(entry: Entry, event: GiveUp, now_ms: int) -> tuple[Entry, Reply]:
    del event
    late = now_ms > entry.terms.deadline_ms
    spent = is_past_limit(entry)
    if entry.state in FINAL or entry.has_lease(now_ms) or not (late or spent):
        return entry, Reply("ignored")
    return replace(settle(entry), state=State.FAILED, reason="limit" if spent else "deadline"), Reply("yes")


def _cancel(entry: Entry, event: Cancel, now_ms: int) -> tuple[Entry, Reply]:
    if entry.state in FINAL:
        return entry, Reply("ignored")
    if entry.has_lease(now_ms):
        return replace(entry, cancel=entry.cancel or event.reason), Reply("pending")
    reason = entry.cancel or event.reason
    return replace(_end(entry), state=State.CANCELLED, cancel=reason, reason=reason), Reply("cancelled")


def _requeue(entry: Entry, event: Requeue, now_ms: int) -> tuple[Entry, Reply]:
    del event, now_ms
    if entry.state is not State.WAITING_TOKEN:
        return entry, Reply("ignored")
    return replace(entry, state=State.QUEUED, reason="", sends=0, sent_ms=0), Reply("queued")


def _sent(entry: Entry, event: Sent, now_ms: int) -> tuple[Entry, Reply]:
    del event
    if entry.state is not State.QUEUED:
        return entry, Reply("ignored")
    return replace(entry, sent_ms=now_ms, sends=entry.sends + 1), Reply("yes")


_MOVES: dict[type, tuple[str, Callable[[Entry, Any, int], tuple[Entry, Reply]]]] = {
    Acquire: ("acquire", _acquire),
    Start: ("start", _start),
    Renew: ("renew", _renew),
    Progress: ("progress", _progress),
    GiveBack: ("give_back", _give_back),
    Finish: ("finish", _finish),
    Commit: ("commit", _commit),
    Expire: ("expire", _expire),
    GiveUp: ("give_up", _give_up),
    Cancel: ("cancel", _cancel),
    Requeue: ("requeue", _requeue),
    Sent: ("sent", _sent),
}
