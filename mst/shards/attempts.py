"""A shard is sent out again while that helps: three attempts without a new finished unit, ten in all.

A unit that was in flight in two lost attempts is given up with a record that says so, and the rest goes on.
"""

from __future__ import annotations

import secrets
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Literal

from mst.config.files import flush_files
from mst.model.shard import UnitKey, unit_name
from mst.shards.contract import (
    TERMINAL,
    Cancel,
    Channel,
    ShardEvents,
    ShardOutcome,
    ShardSpec,
    ShardState,
    UnitDone,
)
from mst.shards.poison import write_poisoned
from mst.shards.supervisor import AttemptOutcome, Handlers, supervise
from mst.shards.turns import Turns
from mst.shards.units import UNITS, read_unit

WITHOUT_PROGRESS = 3
IN_ALL = 10
CRASHES = 2


def attempt_id(number: int) -> str:
    """A new attempt ID: `<n>-<16 hex>`."""
    return f"{number}-{secrets.token_hex(8)}"


def may_try_again(outcome: AttemptOutcome, *, attempts: int, fruitless: int) -> bool:
    """Whether another attempt could end otherwise. Pure."""
    if outcome.reason is None or outcome.reason in TERMINAL:
        return False
    return attempts < IN_ALL and fruitless < WITHOUT_PROGRESS


def run_attempts(
    spec: ShardSpec,
    make_channel: Callable[[ShardSpec, int], Channel],
    events: ShardEvents,
    cancel: Cancel,
    turns: Callable[[str], Turns] | None = None,
) -> ShardOutcome:
    """Run a shard on this machine until it is finished or may not be tried again. Never raises for a lost worker.

    Units that lie in `spec.results` already are kept. Blocks until the end.

    Args:
        turns: makes the limits and budget of an attempt, by its ID.
    """
    started_at = _now()
    attempts: list[str] = []
    crashes: Counter[UnitKey] = Counter()
    counts: Counter[str] = Counter()
    fruitless = 0
    outcome = AttemptOutcome(ok=False, reason="cancelled", detail=cancel.reason)
    while not cancel.is_set():
        attempts.append(attempt_id(len(attempts) + 1))
        own = turns(attempts[-1]) if turns is not None else None
        outcome = _attempt(spec, make_channel(spec, len(attempts)), events, cancel, attempts[-1], own)
        counts.update(outcome.counts)
        fruitless = 0 if outcome.finished else fruitless + 1
        if _all_there(spec):
            outcome = AttemptOutcome(ok=True, counts=outcome.counts, hello=outcome.hello)
        elif outcome.ok:
            outcome = replace(outcome, ok=False, reason="lost", detail="the worker ended without all of its units")
        if not may_try_again(outcome, attempts=len(attempts), fruitless=fruitless):
            break
        events.state(ShardState(shard=spec.index, state="lost", attempt=attempts[-1], reason=outcome.detail))
        crashes.update(outcome.in_flight)
        write_poisoned(spec.results, [key for key, times in crashes.items() if times >= CRASHES])
    done = outcome.ok
    events.state(ShardState(shard=spec.index, state=_end(outcome, done=done), reason=outcome.detail))
    return ShardOutcome(
        shard=spec.index,
        ok=done,
        reason=None if done else outcome.reason or "lost",
        detail=None if done else outcome.detail,
        counts=dict(counts),
        hello=outcome.hello,
        started_at=started_at,
        ended_at=_now(),
        attempts=tuple(attempts),
    )


def _end(outcome: AttemptOutcome, *, done: bool) -> Literal["committed", "cancelled", "failed"]:
    if done:
        return "committed"
    return "cancelled" if outcome.reason == "cancelled" else "failed"


def _attempt(
    spec: ShardSpec, channel: Channel, events: ShardEvents, cancel: Cancel, attempt: str, turns: Turns | None
) -> AttemptOutcome:
    events.state(ShardState(shard=spec.index, state="running", attempt=attempt, machine=channel.machine))

    def unit(done: UnitDone, paths: Sequence[Path]) -> None:
        flush_files(paths)
        events.unit(done)

    try:
        handlers = Handlers(unit=unit, tokens=lambda names: events.tokens(spec.index, names), turns=turns)
        return supervise(spec, channel, handlers, cancel, attempt=attempt)
    finally:
        channel.close()


def _all_there(spec: ShardSpec) -> bool:
    return all(read_unit(spec.results / UNITS / unit_name(key), key, spec.digest) is not None for key in spec.planned)


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
