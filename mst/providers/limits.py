"""How fast models may be asked within one process: requests and tokens a minute, spread evenly, and calls at a time."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

from mst.providers.rates import LIMITS, Ask, Board, Rate

_RESOURCE = "model"


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
    """The limits of one provider, for all calls of one event loop. See `mst.providers.rates` for the rules.

    A turn is given when its time has come and not before: after this process was held up, the calls that waited
    start spaced like any others.

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
        self.rate = Rate(_RESOURCE, concurrent, per_minute, tokens_per_minute)
        self._board = Board()
        self._numbers = itertools.count(1)
        self._waiting: dict[str, asyncio.Future[None]] = {}
        self._timer: asyncio.TimerHandle | None = None

    @asynccontextmanager
    async def slot(self, tokens: int) -> AsyncIterator[Slot]:
        """Wait for a turn, in the order of asking. Set `used` on the slot when it is known."""
        slot = Slot(tokens)
        call = str(next(self._numbers))
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting[call] = turn
        self._board.ask(Ask(call, (self.rate,), tokens))
        self._give()
        try:
            await turn
            yield slot
        finally:
            self._waiting.pop(call, None)
            self._board.release(call, slot.used)
            self._give()

    def pause(self, seconds: float) -> None:
        """Start no call for a while: the provider said so."""
        self._board.pause(_RESOURCE, (asyncio.get_running_loop().time() + seconds) * 1000)

    def _give(self) -> None:
        """Let those start whose turn it is, and look again when the next one's comes."""
        loop = asyncio.get_running_loop()
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        turns, again_ms = self._board.turns(loop.time() * 1000)
        for turn in turns:
            waiting = self._waiting.pop(turn.call, None)
            if waiting is not None and not waiting.done():
                waiting.set_result(None)
        if again_ms is not None:
            self._timer = loop.call_later(again_ms / 1000, self._give)


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
            self._made[name] = Limiter(**{limit: rate.get(limit) for limit in LIMITS})
        return self._made[name]
