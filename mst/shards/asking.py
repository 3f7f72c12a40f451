"""The shard worker's side of limits: calls and units ask the supervisor, who asks for the whole fleet."""

from __future__ import annotations

import asyncio
import itertools
import time
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager

from mst.errors import GradingFault
from mst.model.base import Model
from mst.model.shard import (
    Acquire,
    Granted,
    JudgeAnswered,
    JudgeCounted,
    JudgeFailed,
    Paused,
    Released,
    UnitKey,
    UsageReport,
)
from mst.providers.limits import Limiter, Limits, Slot

ANSWERED_EVERY_S = 5.0
"""How often a verdict of a judge is told while nothing goes wrong."""


class Asking:
    """Asks the supervisor for turns. Of one event loop.

    Args:
        send: writes a message to the supervisor.
        has_budget: whether units ask before they start.
    """

    def __init__(self, send: Callable[[Model], None], *, has_budget: bool) -> None:
        self._send = send
        self._has_budget = has_budget
        self._numbers = itertools.count(1)
        self._calls: dict[int, asyncio.Future[None]] = {}
        self._units: dict[UnitKey, asyncio.Future[bool]] = {}
        self._faults: dict[int, asyncio.Future[None]] = {}
        self._unheld = asyncio.Event()
        self._unheld.set()
        self._is_ending = False
        self._answered_at: dict[str, float] = {}

    def granted(self, message: Granted) -> None:
        """The supervisor's answer. One that nobody waits for any more is passed over."""
        if message.call is not None:
            call = self._calls.pop(message.call, None)
            if call is not None and not call.done():
                call.set_result(None)
        elif message.key is not None:
            unit = self._units.pop(message.key, None)
            if unit is not None and not unit.done():
                unit.set_result(message.refused is None)

    async def failed(self, judge: str, kind: GradingFault, message: str) -> None:
        """A judge ended in a way that says nothing about the case; waits until that is counted.

        The message holds no secret.
        """
        self._answered_at.pop(judge, None)
        number = next(self._numbers)
        answer: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._faults[number] = answer
        self._send(JudgeFailed(fault=number, judge=judge, kind=kind, message=message))
        try:
            await answer
        finally:
            self._faults.pop(number, None)

    def counted(self, message: JudgeCounted) -> None:
        """The supervisor's answer to a fault."""
        fault = self._faults.get(message.fault)
        if fault is not None and not fault.done():
            fault.set_result(None)

    def answered(self, judge: str) -> None:
        """A judge gave a verdict; said at once after a fault, and now and then."""
        now = time.monotonic()
        if now - self._answered_at.get(judge, -ANSWERED_EVERY_S) >= ANSWERED_EVERY_S:
            self._answered_at[judge] = now
            self._send(JudgeAnswered(judge=judge))

    def hold(self, held: bool) -> None:
        """Let no unit start while it is held."""
        if held:
            self._unheld.clear()
        else:
            self._unheld.set()

    def end(self) -> None:
        """Let no unit start any more: those that were held need not wait to hear so."""
        self._is_ending = True
        self._unheld.set()

    async def may_start(self, key: UnitKey, *, is_free: bool = False) -> bool:
        """Whether a unit may start: not after the end, nor without room in the run's budget. Waits for the answer.

        Args:
            key: of the unit.
            is_free: it costs nothing, so that the budget has room for it.
        """
        await self._unheld.wait()
        if self._is_ending:
            return False
        if is_free or not self._has_budget:
            return True
        answer: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
        self._units[key] = answer
        self._send(Acquire(key=key))
        return await answer

    async def take(self, resources: Sequence[str], *, tokens: int = 0, key: UnitKey | None = None) -> int:
        """Wait for a turn on some resources; give it back with `give`."""
        number = next(self._numbers)
        answer: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._calls[number] = answer
        self._send(Acquire(key=key, call=number, resources=list(resources), tokens=tokens))
        try:
            await answer
        except asyncio.CancelledError:
            self.give(number)
            raise
        return number

    def give(self, number: int, used: int | None = None) -> None:
        """Give a turn back."""
        self._calls.pop(number, None)
        self._send(Released(call=number, tokens=used))

    def used(self, key: UnitKey, tokens: int, cost_usd: float) -> None:
        """Say what a unit used."""
        self._send(UsageReport(key=key, tokens=tokens, cost_usd=cost_usd))

    def pause(self, resource: str, seconds: float) -> None:
        """Say that a provider told a call to wait."""
        self._send(Paused(resource=resource, seconds=seconds))


class AskedLimits(Limits):
    """Limits of providers as judges use them, kept by the supervisor for all shards alike."""

    def __init__(self, asking: Asking) -> None:
        super().__init__()
        self._asking = asking

    def named(self, name: str) -> Limiter:
        """The limiter of a provider."""
        if name not in self._made:
            self._made[name] = _AskedLimiter(self._asking, f"provider:{name}")
        return self._made[name]


class _AskedLimiter(Limiter):
    def __init__(self, asking: Asking, resource: str) -> None:
        super().__init__()
        self._asking = asking
        self._resource = resource

    @asynccontextmanager
    async def slot(self, tokens: int) -> AsyncIterator[Slot]:
        """See `Limiter.slot`. A call that failed has used what nobody knows, so its estimate stands."""
        slot = Slot(tokens)
        number = await self._asking.take([self._resource], tokens=tokens)
        try:
            yield slot
        finally:
            self._asking.give(number, slot.used)

    def pause(self, seconds: float) -> None:
        """See `Limiter.pause`; holds on every machine."""
        self._asking.pause(self._resource, seconds)
