"""A request to stop, as whoever works in a loop sees it."""

from __future__ import annotations

from typing import Protocol


class Stop(Protocol):
    """An `asyncio.Event`, or anything that another thread may set. Asked before each new unit of work."""

    def is_set(self) -> bool:
        """Whether it was asked for."""
        ...
