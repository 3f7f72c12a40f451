"""How fast models may be asked: requests and tokens a minute, spread evenly, and calls at a time.

Providers keep their limits as a bucket that fills all the time, and many enforce a share of a minute. Calls are
therefore spaced, not let through in bursts: at the limit, a call starts every `60 / per_minute` seconds.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

MARGIN = 0.99
"""Share of a limit that is used, so that a call that arrives early does not pass it."""
SLACK_S = 0.2
"""How much lost time may be made up for when this process woke up late."""


@dataclass
class Pace:
    """Start times that keep a rate. Pure but for what it remembers.

    Attributes:
        per_minute: what may be spent in a minute.
    """

    per_minute: float
    _next: float = field(default=-math.inf, repr=False)

    def reserve(self, amount: float, now: float) -> float:
        """Take a start time for something that spends `amount`; how many seconds it is away."""
        start = max(self._next, now - SLACK_S)
        self._next = start + amount * 60 / (self.per_minute * MARGIN)
        return max(0.0, start - now)

    def correct(self, amount: float) -> None:
        """Something spent `amount` more (or, when negative, less) than was taken for it."""
        if math.isfinite(self._next):
            self._next += amount * 60 / (self.per_minute * MARGIN)


@dataclass
class Slot:
    """One call's turn.

    Attributes:
        tokens: estimate that was taken for it.
        used: tokens that it really used; None when that is not known, then the estimate stands.
    """

    tokens: int
    used: int | None = None


class Limiter:
    """The limits of one provider, for all calls of one event loop.

    Args:
        concurrent: calls at a time.
        per_minute: calls a minute.
        tokens_per_minute: tokens in and out a minute.
    """

    def __init__(
        self,
        *,
        concurrent: int | None = None,
        per_minute: float | None = None,
        tokens_per_minute: float | None = None,
    ) -> None:
        self._room = asyncio.Semaphore(concurrent) if concurrent else None
        self._calls = Pace(per_minute) if per_minute else None
        self._tokens = Pace(tokens_per_minute) if tokens_per_minute else None
        self._paused_until = -math.inf

    @asynccontextmanager
    async def slot(self, tokens: int) -> AsyncIterator[Slot]:
        """Wait for a turn, in the order of asking. Set `used` on the slot when it is known."""
        slot = Slot(tokens)
        if self._room is None:
            await self._wait(tokens)
            yield slot
        else:
            async with self._room:
                await self._wait(tokens)
                yield slot
        if self._tokens is not None and slot.used is not None:
            self._tokens.correct(slot.used - tokens)

    def pause(self, seconds: float) -> None:
        """Start no call for a while: the provider said so."""
        self._paused_until = max(self._paused_until, asyncio.get_running_loop().time() + seconds)

    async def _wait(self, tokens: int) -> None:
        clock = asyncio.get_running_loop().time
        waits = [self._calls.reserve(1, clock())] if self._calls is not None else []
        if self._tokens is not None:
            waits.append(self._tokens.reserve(tokens, clock()))
        if waits:
            await asyncio.sleep(max(waits))
        while (left := self._paused_until - clock()) > 0:  # noqa: ASYNC110 - a time is waited for, not an event
            await asyncio.sleep(left)


class Limits:
    """Limiters by name, each made when it is first asked for.

    Args:
        rates: `rate_limits.providers` of the eval config.
    """

    def __init__(self, rates: Mapping[str, Mapping[str, Any]] | None = None) -> None:
        self._rates = rates or {}
        self._made: dict[str, Limiter] = {}

    def named(self, name: str) -> Limiter:
        """The limiter of a provider; one without limits when the config says nothing of it."""
        if name not in self._made:
            rate = self._rates.get(name, {})
            self._made[name] = Limiter(
                concurrent=rate.get("concurrent"),
                per_minute=rate.get("per_minute"),
                tokens_per_minute=rate.get("tokens_per_minute"),
            )
        return self._made[name]
