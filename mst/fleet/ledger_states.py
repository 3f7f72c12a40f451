"""The life of a shard on the fleet, as data: its states, its entry, what can happen to it, and what may follow.

`ledger_machine` decides with these; Redis does the same in `lua/`. Times are milliseconds of Redis' clock.

An attempt is *open* from its grant until it is given back, finished or superseded. Losing a lease does not end it:
as long as nobody else was granted the shard, its worker may come back (`revived`). That it was lost is counted when
the next attempt is granted.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from types import MappingProxyType
from typing import Literal

POISON_CRASHES = 2
"""A unit that was in flight in this many lost attempts is not tried again."""


class State(StrEnum):
    """Where a shard stands."""

    QUEUED = "queued"
    LEASED = "leased"
    RUNNING = "running"
    WAITING_TOKEN = "waiting_token"  # noqa: S105 - a state, not a password
    COMMITTED = "committed"
    FAILED = "failed"
    CANCELLED = "cancelled"


HELD = frozenset({State.LEASED, State.RUNNING})
FINAL = frozenset({State.COMMITTED, State.FAILED, State.CANCELLED})

Answer = Literal[
    "granted", "refused", "yes", "lost", "revived", "queued", "past_limit", "cancelled", "pending", "ignored", "unknown"
]

UNCOUNTED = frozenset({"drain", "preempted", "store", "incompatible", "waiting_token", "cancelled", "broker"})
"""Reasons for giving back that are not a failed attempt."""

BACKS_OFF = frozenset({"store", "incompatible"})
"""Reasons after which sending again at once would meet the same trouble."""


@dataclass(frozen=True)
class Terms:
    """What holds for a whole dispatch."""

    deadline_ms: int
    lease_ttl_ms: int
    attempts: int = 10
    idle_attempts: int = 3


@dataclass(frozen=True)
class Entry:
    """One shard's entry, without its envelope."""

    terms: Terms
    units: int
    state: State = State.QUEUED
    n: int = 0
    """Number of the highest attempt that was granted."""
    attempt_id: str = ""
    """Its whole ID; empty when none was granted, or when only its number is known (a rebuilt entry)."""
    worker: str = ""
    open: bool = False
    lease_until_ms: int = 0
    done: int = 0
    """Units that are durable in the store."""
    done_at_grant: int = 0
    lost: int = 0
    idle: int = 0
    """Attempts lost in a row without a new finished unit."""
    in_flight: frozenset[str] = frozenset()
    crashes: Mapping[str, int] = field(default_factory=lambda: MappingProxyType({}))
    """In how many lost attempts a unit was in flight."""
    reason: str = ""
    cancel: str = ""
    """Why the dispatch is being cancelled; empty while it is not."""
    closed: bool = False
    sent_ms: int = 0
    sends: int = 0

    def has_lease(self, now_ms: int) -> bool:
        """Whether somebody holds the shard now."""
        return self.state in HELD and now_ms < self.lease_until_ms

    def is_mine(self, attempt_id: str) -> bool:
        """Whether this attempt is the open one."""
        return self.open and attempt_id == self.attempt_id

    def poison(self) -> tuple[str, ...]:
        """Units that must not be tried again, sorted."""
        return tuple(sorted(unit for unit, count in self.crashes.items() if count >= POISON_CRASHES))


@dataclass(frozen=True)
class Reply:
    """What a move answers.

    Attributes:
        answer: the answer in one word.
        why: for `refused` and `lost`: `leased`, `committed`, `failed`, `cancelled`, `waiting_token`, `deadline`,
            `past_limit`, `closed`, `superseded` or `given_back`.
        attempt_id: the whole ID, when granted.
        cancel: set when work should end at a unit's end: the user's reason, or `deadline`.
        poison: units that a granted attempt must not try again.
    """

    answer: Answer
    why: str = ""
    attempt_id: str = ""
    cancel: str = ""
    poison: tuple[str, ...] = ()


@dataclass(frozen=True)
class Acquire:
    """A worker asks for the shard, with a random token of 16 hex digits."""

    token: str
    worker: str = ""


@dataclass(frozen=True)
class Start:
    """The shard worker is about to run."""

    attempt_id: str


@dataclass(frozen=True)
class Renew:
    """The attempt goes on."""

    attempt_id: str


@dataclass(frozen=True)
class Progress:
    """Units began or became durable. `done` counts all durable units of the shard, those taken over included."""

    attempt_id: str
    done: int
    started: frozenset[str] = frozenset()
    finished: frozenset[str] = frozenset()


@dataclass(frozen=True)
class GiveBack:
    """The attempt ends without a result; another one may go on."""

    attempt_id: str
    reason: str


@dataclass(frozen=True)
class Finish:
    """The attempt ends for good: `failed` (no attempt would fare better) or `cancelled`."""

    attempt_id: str
    to: Literal[State.FAILED, State.CANCELLED]
    reason: str


@dataclass(frozen=True)
class Commit:
    """A complete manifest was seen in the store; `done` is the number of its units."""

    done: int


@dataclass(frozen=True)
class Expire:
    """The lease of this attempt ran out, or (`died`) its worker is known to be dead."""

    attempt_id: str
    died: bool = False


@dataclass(frozen=True)
class GiveUp:
    """No attempt is left, or the deadline has passed, and the store has no manifest."""


@dataclass(frozen=True)
class Cancel:
    """The user wants no more of it."""

    reason: str


@dataclass(frozen=True)
class Requeue:
    """A renewed grant was stored for a shard that waited for it."""


@dataclass(frozen=True)
class Sent:
    """A message was put on the queue."""


Event = Acquire | Start | Renew | Progress | GiveBack | Finish | Commit | Expire | GiveUp | Cancel | Requeue | Sent

_Q, _L, _R, _W = State.QUEUED, State.LEASED, State.RUNNING, State.WAITING_TOKEN
_C, _F, _X = State.COMMITTED, State.FAILED, State.CANCELLED

TRANSITIONS: dict[str, dict[State, frozenset[State]]] = {
    "acquire": {_Q: frozenset({_L}), _L: frozenset({_L}), _R: frozenset({_L})},
    "start": {_L: frozenset({_R}), _R: frozenset({_R})},
    "renew": {_L: frozenset({_L, _R}), _R: frozenset({_R}), _Q: frozenset({_R})},
    "progress": {_L: frozenset({_L}), _R: frozenset({_R}), _Q: frozenset({_Q})},
    "give_back": {_L: frozenset({_Q, _X}), _R: frozenset({_Q, _X, _W}), _Q: frozenset({_Q, _X})},
    "finish": {_L: frozenset({_F, _X}), _R: frozenset({_F, _X}), _Q: frozenset({_F, _X})},
    "commit": {state: frozenset({_C}) for state in State},
    "expire": {_L: frozenset({_Q, _X}), _R: frozenset({_Q, _X})},
    "give_up": {_Q: frozenset({_F}), _L: frozenset({_F}), _R: frozenset({_F}), _W: frozenset({_F})},
    "cancel": {_Q: frozenset({_X}), _W: frozenset({_X}), _L: frozenset({_L, _X}), _R: frozenset({_R, _X})},
    "requeue": {_W: frozenset({_Q})},
    "sent": {_Q: frozenset({_Q})},
}
"""Every change of state that there is: event -> from -> to. What is not here can't happen, in Redis neither."""
