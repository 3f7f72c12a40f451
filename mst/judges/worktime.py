"""The time of an agent that judges: what it works, without what its calls wait for their turn under a rate limit."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

from mst.providers.limits import Limiter, Slot


class WorkTime:
    """Runs inside `with`, and stands while a call waits for its turn. For use in one event loop.

    Args:
        limit_s: how long the agent may work.
        over: called when it has.
    """

    def __init__(self, limit_s: float, over: Callable[[], None]) -> None:
        self._left_s = limit_s
        self._over = over
        self._waiting = 0
        self._since = 0.0
        self._timer: asyncio.TimerHandle | None = None

    def __enter__(self) -> None:
        self._go_on()

    def __exit__(self, *_: object) -> None:
        self._waiting += 1  # for ever: a call that is still on its way starts nothing again
        self._stand()

    @asynccontextmanager
    async def turn(self, limiter: Limiter, tokens: int) -> AsyncIterator[Slot]:
        """Wait for a turn off the clock; what is inside is on it."""
        self._waiting += 1
        self._stand()
        is_waiting = True
        try:
            async with limiter.slot(tokens) as slot:
                is_waiting = False
                self._waited()
                yield slot
        finally:
            if is_waiting:
                self._waited()

    def _waited(self) -> None:
        self._waiting -= 1
        if self._waiting == 0:
            self._go_on()

    def _stand(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
            self._left_s -= asyncio.get_running_loop().time() - self._since

    def _go_on(self) -> None:
        loop = asyncio.get_running_loop()
        self._since = loop.time()
        self._timer = loop.call_later(max(0.0, self._left_s), self._over)
