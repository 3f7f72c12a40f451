"""Limits on calls to providers and servers: what a plan says, and the pure rules by which turns are given.

The rules are those of `mst/fleet/lua/limit.lua`, which keeps the same state in Redis for a whole fleet. Calls are
spaced, not let through in bursts, and a turn is counted when it is given: at a rate, one starts every
`60 / (per_minute x MARGIN)` seconds, and those that were held up start spaced as well. Times are milliseconds.

Why a limit is not passed: a server counts arrivals, which come up to some delay after the turn. In a minute of arrivals
lie at most the turns of a minute, of the delay and of the slack; spaced as they are, these are at most `per_minute` as
long as delay and slack together stay under 60 s x (1 / MARGIN - 1), wherever the minute begins. That leaves
`DELAY_MS` for the way from the turn to the server.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

MARGIN = 0.97
"""Share of a rate that is used. The rest is for calls that arrive early or late."""
SLACK_MS = 200.0
"""How much lost time may be made up for when nobody looked in time, for calls that are at most as far apart."""
DELAY_MS = 60_000 * (1 / MARGIN - 1) - SLACK_MS
"""The longest way from a turn to the server with which no minute has more calls than allowed: 1.66 s."""
HORIZON_MS = 100.0
"""In a fleet a turn is given at most this long before it begins, so that the word of it is there in time."""


@dataclass(frozen=True)
class Rate:
    """What may be used of one resource (`provider:<name>`, `server:<label>`). None: no limit of that kind."""

    resource: str
    concurrent: int | None = None
    per_minute: float | None = None
    tokens_per_minute: float | None = None

    def lowered(self, other: Rate | None) -> Rate:
        """The lower of each of two limits."""
        if other is None:
            return self
        return Rate(
            self.resource,
            _lower(self.concurrent, other.concurrent),
            _lower(self.per_minute, other.per_minute),
            _lower(self.tokens_per_minute, other.tokens_per_minute),
        )

    def to_dict(self) -> dict[str, Any]:
        """As Redis keeps it: only the limits that there are."""
        return {key: value for key, value in vars(self).items() if value is not None}


def rates_of(limits: Mapping[str, Any]) -> dict[str, Rate]:
    """The rates of a plan's `rate_limits`, by resource."""
    found = {}
    for kind, section in (("provider", "providers"), ("server", "servers")):
        for name, rate in (limits.get(section) or {}).items():
            resource = f"{kind}:{name}"
            found[resource] = Rate(resource, **{key: rate.get(key) for key in LIMITS})
    return found


LIMITS = ("concurrent", "per_minute", "tokens_per_minute")


@dataclass(frozen=True)
class Ask:
    """A call that waits for its turn.

    Attributes:
        call: its name, unique among all that wait or run.
        wants: every resource that it uses, with the limits that its plan sets.
        tokens: estimate of what it will use.
    """

    call: str
    wants: tuple[Rate, ...]
    tokens: int = 0


@dataclass(frozen=True)
class Turn:
    """A call may start, in this many milliseconds."""

    call: str
    wait_ms: float


@dataclass
class _Resource:
    used_by: set[str] = field(default_factory=set)
    next_call_ms: float = 0.0
    next_token_ms: float = 0.0
    paused_until_ms: float = 0.0


class Board:
    """Who waits for what, and who has it. Not thread-safe; knows no clock.

    Calls that want the same have one queue, first come first served; a queue whose first call has to wait does not
    hold up the others.

    Args:
        caps: limits that hold besides those that are asked with.
        horizon_ms: how long before it begins a turn may be given. 0 where the word of it takes no time: what was not
            given yet cannot start late together with others.
    """

    def __init__(self, caps: Mapping[str, Rate] | None = None, *, horizon_ms: float = 0.0) -> None:
        self._caps = dict(caps or {})
        self._horizon_ms = horizon_ms
        self._resources: dict[str, _Resource] = {}
        self._queues: dict[tuple[Rate, ...], OrderedDict[str, Ask]] = {}
        self._given: dict[str, Ask] = {}

    def ask(self, ask: Ask) -> None:
        """Queue a call. One that waits or runs already is left as it is."""
        if ask.call not in self._given:
            self._queues.setdefault(ask.wants, OrderedDict()).setdefault(ask.call, ask)

    def release(self, call: str, used: int | None = None) -> None:
        """A call has ended, or does not want its turn any more. Unknown calls are passed over.

        Args:
            used: tokens that it really used; the estimate stands when that is not known.
        """
        for waiting in self._queues.values():
            waiting.pop(call, None)
        ask = self._given.pop(call, None)
        for rate in ask.wants if ask is not None else ():
            resource = self._of(rate.resource)
            resource.used_by.discard(call)
            tokens = self._capped(rate).tokens_per_minute
            if tokens and used is not None and ask is not None:
                resource.next_token_ms += (used - ask.tokens) * spacing_ms(tokens)

    def pause(self, resource: str, until_ms: float) -> None:
        """Start no call on a resource until then: the provider said so."""
        found = self._of(resource)
        found.paused_until_ms = max(found.paused_until_ms, until_ms)

    def turns(self, now_ms: float) -> tuple[list[Turn], float | None]:
        """Whose turn it is now, in order, and in how many milliseconds to look again (None: when a call ends)."""
        given: list[Turn] = []
        again: list[float] = []
        for wants, waiting in list(self._queues.items()):
            while waiting:
                ask = next(iter(waiting.values()))
                start_ms = self._start_ms(ask, now_ms)
                if start_ms is None:
                    break
                if start_ms > now_ms + self._horizon_ms:
                    again.append(start_ms - self._horizon_ms - now_ms)
                    break
                del waiting[ask.call]
                self._take(ask, start_ms, now_ms)
                given.append(Turn(ask.call, max(0.0, start_ms - now_ms)))
            if not waiting:
                del self._queues[wants]
        return given, min(again, default=None)

    def _start_ms(self, ask: Ask, now_ms: float) -> float | None:
        """When the rates let a call start; None while too many run."""
        start = now_ms - SLACK_MS
        for rate in map(self._capped, ask.wants):
            resource = self._of(rate.resource)
            if rate.concurrent is not None and len(resource.used_by) >= rate.concurrent:
                return None
            start = max(start, resource.paused_until_ms)
            start = max(start, resource.next_call_ms if rate.per_minute else 0.0)
            start = max(start, resource.next_token_ms if rate.tokens_per_minute else 0.0)
        return start

    def _take(self, ask: Ask, start_ms: float, now_ms: float) -> None:
        self._given[ask.call] = ask
        for rate in map(self._capped, ask.wants):
            resource = self._of(rate.resource)
            resource.used_by.add(ask.call)
            if rate.per_minute:
                resource.next_call_ms = _next_ms(start_ms, now_ms, spacing_ms(rate.per_minute))
            if rate.tokens_per_minute:
                step_ms = ask.tokens * spacing_ms(rate.tokens_per_minute)
                resource.next_token_ms = _next_ms(start_ms, now_ms, step_ms)

    def _of(self, resource: str) -> _Resource:
        return self._resources.setdefault(resource, _Resource())

    def _capped(self, rate: Rate) -> Rate:
        return rate.lowered(self._caps.get(rate.resource))


def slack_ms(step_ms: float) -> float:
    """How much of lost time may be made up for by calls that are so far apart: little where a burst would be two."""
    return SLACK_MS if step_ms <= SLACK_MS else (1 - MARGIN) * step_ms


def _next_ms(start_ms: float, now_ms: float, step_ms: float) -> float:
    return max(start_ms, now_ms - slack_ms(step_ms)) + step_ms


def spacing_ms(per_minute: float) -> float:
    """Milliseconds between two calls, or tokens, at a rate."""
    return 60_000 / (per_minute * MARGIN)


def wanted(resources: Iterable[str], rates: Mapping[str, Rate]) -> tuple[Rate, ...]:
    """The rates of some resources; those without limits are named all the same, since a fleet may have some."""
    return tuple(rates.get(name) or Rate(name) for name in sorted(set(resources)))


def _lower(*limits: Any) -> Any:
    return min((limit for limit in limits if limit is not None), default=None)


def caps_of(stored: Mapping[str, Mapping[str, Any]]) -> dict[str, Rate]:
    """Rates by resource, from plain data."""
    return {name: Rate(name, **{key: given.get(key) for key in LIMITS}) for name, given in stored.items()}


__all__: Sequence[str] = (
    "DELAY_MS", "HORIZON_MS", "LIMITS", "MARGIN", "SLACK_MS", "Ask", "Board", "Rate", "Turn", "caps_of", "rates_of",
    "slack_ms", "spacing_ms", "wanted",
)  # fmt: skip
