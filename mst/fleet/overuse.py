"""Disk and time of one shard, watched rather than kept by the kernel: this needs neither root nor a file system.

What a shard writes lies below one folder (its `TMPDIR` too), or in its container. A thread has that added up again and
again and never spends more than a tenth of its time on it, so a fast writer is a little over its bound before it is
ended. The kernel keeps one part: no single file gets larger than the whole bound.
"""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable
from types import TracebackType
from typing import Self, TypeAlias

from mst.shards.contract import LossReason

PACE_S = 1.0
Measure: TypeAlias = Callable[[int, threading.Event], int]
"""Adds up what a shard takes of a disk; may end early when that is more than the number, or when the event is set."""

IDLE_PARTS = 10
"""A scan is followed by a rest of at least this many times its duration."""


class Overuse:
    """Watches a shard from entering to leaving.

    Args:
        measure: adds up what it wrote.
        disk_bytes: how much that may be; None watches nothing.
        time_s: how long it may take, waiting for turns included; time in which the machine slept does not count.
    """

    def __init__(
        self, measure: Measure, *, disk_bytes: int | None, time_s: float | None, pace_s: float = PACE_S
    ) -> None:
        self._measure = measure
        self._disk_bytes = disk_bytes
        self._time_s = time_s
        self._pace_s = pace_s
        self._until = None if time_s is None else time.monotonic() + time_s
        self._is_full = False
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True, name="mst-disk")

    def __enter__(self) -> Self:
        if self._disk_bytes is not None:
            self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._ended.set()
        if self._disk_bytes is not None:
            self._thread.join()

    def found(self) -> tuple[LossReason, str] | None:
        """Which bound was passed, and in words; None while none was. Cheap."""
        if self._is_full:
            assert self._disk_bytes is not None
            return "disk", f"the shard used more than the {_gib(self._disk_bytes)} of disk that it may"
        if self._until is not None and time.monotonic() >= self._until:
            return "time", f"the shard took longer than the {self._time_s:g} s that it may"
        return None

    def _watch(self) -> None:
        assert self._disk_bytes is not None
        pause_s = self._pace_s
        while not self._ended.wait(pause_s):
            began = time.monotonic()
            if self._measure(self._disk_bytes, self._ended) > self._disk_bytes:
                self._is_full = True
                return
            pause_s = max(self._pace_s, IDLE_PARTS * (time.monotonic() - began))


def cap_files(pid: int, most_bytes: int) -> None:
    """Let the kernel refuse a process that has just started, and what it starts, any larger file. Linux only."""
    if sys.platform == "linux":
        import resource  # noqa: PLC0415 - of Unix only

        resource.prlimit(pid, resource.RLIMIT_FSIZE, (most_bytes, most_bytes))


def _gib(count: int) -> str:
    return f"{count / 1024**3:.3g} GiB"
