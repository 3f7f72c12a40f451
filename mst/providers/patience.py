"""Asking with patience: transport faults again, "too many requests" as told, all of it counted and bounded."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import TypeVar

from mst.providers.attempts import Again, GiveUp, ModelFault, after
from mst.providers.endpoints import Endpoint
from mst.providers.limits import Limits

SHOWN_ERROR_CHARACTERS = 300
QUEUE_S = 3600.0
"""The longest that a call may wait for its turn under the config's rate limits."""

T = TypeVar("T")


@dataclass(kw_only=True)
class Patience:
    """How often one call may fail, and what it met so far, over all its tries and providers.

    Attributes:
        retries: transport faults that each provider may have.
        limits: told when a provider asks for a pause, which then holds for every call to it.
        redact: takes secrets out of what providers say.
        faults: one line for each try without an answer.
    """

    retries: int
    limits: Limits
    redact: Callable[[str], str] = str
    faults: list[str] = field(default_factory=list)

    async def ask(self, endpoint: Endpoint, send: Callable[[], Awaitable[T]], *, is_last: bool = True) -> T | None:
        """The answer of one provider; None when it is left for the next one.

        Raises:
            ModelFault: no answer, in words about all tries; the kind is that of the last one.
        """
        retried = told = 0
        while True:
            try:
                return await send()
            except ModelFault as fault:
                self.faults.append(f"{endpoint.model}: {self.redact(str(fault))[:SHOWN_ERROR_CHARACTERS]}")
                left = self.retries - retried
                step = after(fault, retries_left=left, retried=retried, told_waits=told, is_last=is_last)
                if isinstance(step, GiveUp):
                    raise ModelFault(self._last_words(retried, told), fault.kind, status=fault.status) from fault
                if not isinstance(step, Again):
                    return None
                told += step.told
                retried += not step.told
                if step.told:
                    self.limits.named(endpoint.limit_name).pause(step.wait_s)
                await asyncio.sleep(step.wait_s)

    def _last_words(self, retried: int, told: int) -> str:
        """What the last provider said, then what those before it said; each once."""
        tried = f" after {retried} retries" if retried else ""
        waited = f" after waiting {told} times as told" if told else ""
        last = self.faults[-1]
        before = [fault for fault in dict.fromkeys(self.faults[:-1]) if fault != last]
        return f"{last}{tried}{waited}" + (f" (before: {'; '.join(before)})" if before else "")
