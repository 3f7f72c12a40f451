"""The port to whoever gives turns for calls, and the one for shards that all run on this machine."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Protocol

from mst.providers.rates import Ask, Board, Rate

Granted = Callable[[], None]
"""Called once from a thread of the limiter, when the call may start. Must return quickly."""


class CallLimiter(Protocol):
    """Gives turns. All methods return at once, may be called from any thread, and never raise for a lost server."""

    def ask(self, ask: Ask, granted: Granted) -> None:
        """Queue a call; `granted` is called when it may start. While the limiter cannot be reached nothing starts."""
        ...

    def release(self, call: str, used: int | None = None) -> None:
        """A call has ended, or its turn is not wanted any more. Unknown calls are passed over."""
        ...

    def pause(self, resource: str, seconds: float) -> None:
        """Start no call on a resource for a while, wherever it would start."""
        ...

    def close(self) -> None:
        """Give everything back. Safe to call twice."""
        ...


class LocalLimiter:
    """Gives turns to the shards of this process. See `CallLimiter`."""

    def __init__(self, caps: dict[str, Rate] | None = None, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._board = Board(caps)
        self._clock = clock
        self._waiting: dict[str, Granted] = {}
        self._again_ms: float | None = None
        self._changed = threading.Condition()
        self._closed = False
        self._thread: threading.Thread | None = None

    def ask(self, ask: Ask, granted: Granted) -> None:
        """See `CallLimiter.ask`."""
        with self._changed:
            if self._closed:
                return
            self._waiting[ask.call] = granted
            self._board.ask(ask)
            if self._thread is None:
                self._thread = threading.Thread(target=self._give, daemon=True, name="mst-limits")
                self._thread.start()
            self._changed.notify()

    def release(self, call: str, used: int | None = None) -> None:
        """See `CallLimiter.release`."""
        with self._changed:
            self._waiting.pop(call, None)
            self._board.release(call, used)
            self._changed.notify()

    def pause(self, resource: str, seconds: float) -> None:
        """See `CallLimiter.pause`."""
        with self._changed:
            self._board.pause(resource, self._now_ms() + seconds * 1000)

    def close(self) -> None:
        """See `CallLimiter.close`."""
        with self._changed:
            self._closed = True
            self._changed.notify()
        if self._thread is not None and self._thread is not threading.current_thread():
            self._thread.join()

    def _now_ms(self) -> float:
        return self._clock() * 1000

    def _give(self) -> None:
        while True:
            with self._changed:
                ready = self._ready()
                if self._closed:
                    return
                if not ready:
                    self._changed.wait(self._patience_s())
                    continue
            for granted in ready:
                with suppress(OSError):
                    granted()

    def _ready(self) -> list[Granted]:
        turns, self._again_ms = self._board.turns(self._now_ms())
        if self._again_ms is not None:
            self._again_ms += self._now_ms()
        return [self._waiting.pop(turn.call) for turn in turns if turn.call in self._waiting]

    def _patience_s(self) -> float | None:
        return None if self._again_ms is None else max(0.0, self._again_ms - self._now_ms()) / 1000
