"""A shard worker that is started while its machine has nothing to do, so that the next shard need not wait for it.

Nearly all that a quick shard waits for is a new interpreter that loads its libraries. Each shard still has a process of
its own: a spare one serves one shard.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Self

from mst.errors import RunnerError
from mst.shards.process_channel import ChildProcess, start_waiting

IDLE_S = 1.0
"""No shard for so long: then starting one takes nothing from a shard that follows, or from a program that ends now."""


class Spare:
    """Keeps one waiting. Thread-safe; use as a context manager, which starts the first and ends what is left."""

    def __init__(self, *, idle_s: float = IDLE_S, start: Callable[[], ChildProcess] = start_waiting) -> None:
        self._idle_s = idle_s
        self._start = start
        self._waiting: ChildProcess | None = None
        self._busy = 0
        self._is_over = False
        self._changed = threading.Condition()
        self._thread = threading.Thread(target=self._keep, daemon=True, name="mst-spare")

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        with self._changed:
            self._is_over = True
            self._changed.notify_all()
        self._thread.join()
        if (left := self.take()) is not None:
            left.kill()

    def take(self) -> ChildProcess | None:
        """The one that waits, for the caller to use and to end; None when there is none."""
        with self._changed:
            found, self._waiting = self._waiting, None
            self._changed.notify_all()
        if found is None or found.wait(0) is None:
            return found
        found.kill()
        return None

    @contextmanager
    def pausing(self) -> Iterator[None]:
        """For as long as a shard is worked on: none is started meanwhile."""
        self._count(1)
        try:
            yield
        finally:
            self._count(-1)

    def _count(self, more: int) -> None:
        with self._changed:
            self._busy += more
            self._changed.notify_all()

    def ready(self) -> bool:
        """See that one is there, or loads meanwhile, for a shard that takes it soon; False: none can be started."""
        with self._changed:
            if self._waiting is None and not self._is_over:
                # a shard that starts its own tells why it cannot
                with suppress(RunnerError):
                    self._waiting = self._start()
            return self._waiting is not None

    def _keep(self) -> None:
        while self._is_wanted() and self.ready():
            pass

    def _is_wanted(self) -> bool:
        """Wait until one should be started; False at the end."""
        with self._changed:
            while True:
                self._changed.wait_for(lambda: self._is_over or not (self._busy or self._waiting))
                if self._is_over:
                    return False
                if not self._changed.wait_for(lambda: self._is_over or self._busy, self._idle_s):
                    return True
