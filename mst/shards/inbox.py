"""What a shard worker said and nobody has read yet: one thread puts lines in, another takes all that are there."""

from __future__ import annotations

import threading

INBOX_LINES = 64

Item = bytes | Exception | None
"""A line, a fault of the channel, or the end."""


class Inbox:
    """Holds up to `INBOX_LINES` lines. A worker whose lines come faster than they are handled has to wait."""

    def __init__(self) -> None:
        self._items: list[Item] = []
        self._closed = False
        self._changed = threading.Condition()

    def put(self, item: Item) -> bool:
        """Add one item; waits for room. Returns False once the inbox is closed."""
        with self._changed:
            while len(self._items) >= INBOX_LINES and not self._closed:
                self._changed.wait()
            if self._closed:
                return False
            self._items.append(item)
            if len(self._items) == 1:
                self._changed.notify()
        return True

    def take(self, timeout_s: float) -> list[Item]:
        """Everything that is there, in order; nothing when nothing came within the time."""
        with self._changed:
            if not self._items:
                self._changed.wait(timeout_s)
            taken, self._items = self._items, []
            if len(taken) >= INBOX_LINES:
                self._changed.notify()
        return taken

    def close(self) -> None:
        """Let go of who waits for room: it would wait for ever."""
        with self._changed:
            self._closed = True
            self._items = []
            self._changed.notify()
