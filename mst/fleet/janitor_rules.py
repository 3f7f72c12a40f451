"""What a janitor should do about a shard that nobody seems to work on. Pure."""

from __future__ import annotations

from typing import Literal

from mst.fleet.ledger_machine import is_past_limit
from mst.fleet.ledger_states import FINAL, HELD, Entry, State

BACK_OFF_DOUBLINGS = 6

Need = Literal["expire", "give_up", "send"]


def needed(entry: Entry, *, queue_idle_ms: int, now_ms: int) -> Need | None:
    """What a janitor should do about a shard, after it looked for its manifest in the store; None: leave it alone.

    Args:
        entry: as read; every move checks again.
        queue_idle_ms: for how long the shard's queue has been empty; -1 when it is not.
        now_ms: Redis' clock.
    """
    if entry.state in FINAL or entry.has_lease(now_ms):
        return None
    if now_ms > entry.terms.deadline_ms:
        return "give_up"
    if entry.state in HELD:
        return "expire"
    if entry.state is State.WAITING_TOKEN:
        return None
    if is_past_limit(entry):
        return "give_up"
    return "send" if _is_due(entry, queue_idle_ms, now_ms) else None


def _is_due(entry: Entry, queue_idle_ms: int, now_ms: int) -> bool:
    if entry.sends == 0:
        return True
    half = entry.terms.lease_ttl_ms / 2
    wait = half * 2 ** min(entry.sends - 1, BACK_OFF_DOUBLINGS)
    return queue_idle_ms >= half and now_ms - entry.sent_ms >= wait
