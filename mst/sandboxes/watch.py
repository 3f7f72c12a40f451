"""What no kernel limit keeps: the space that a trial's files take, and without control groups their memory together."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from mst.process.space import used_bytes

_MEMBERS_EVERY_S = 0.2
_DISK_EVERY_S = 1.0
_DISK_SHARE = 10
"""At most a tenth of the time goes into looking at files."""
_PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")


@dataclass(frozen=True, kw_only=True)
class Bounds:
    """What is watched; None: the kernel keeps it."""

    folders: Sequence[Path]
    disk_bytes: int
    memory_bytes: int | None = None


async def watch(bounds: Bounds, leader: Callable[[], int | None], stop: asyncio.Future[str]) -> None:
    """Look until cancelled; the first limit that is passed becomes the result of `stop`: `disk`, `memory`.

    Args:
        leader: process ID of the sandbox's outermost process, once it runs.
    """
    disk_due = time.monotonic() + _DISK_EVERY_S
    every_s = _DISK_EVERY_S if bounds.memory_bytes is None else _MEMBERS_EVERY_S
    while not stop.done():
        await asyncio.sleep(every_s)
        passed = _passed_by_members(bounds, leader())
        now = time.monotonic()
        if passed is None and now >= disk_due:
            used = await asyncio.to_thread(used_bytes, bounds.folders, bounds.disk_bytes)
            passed = "disk" if used > bounds.disk_bytes else None
            took = time.monotonic() - now
            disk_due = time.monotonic() + max(_DISK_EVERY_S, _DISK_SHARE * took)
        if passed is not None and not stop.done():
            stop.set_result(passed)


def _passed_by_members(bounds: Bounds, leader: int | None) -> str | None:
    if leader is None or bounds.memory_bytes is None:
        return None
    return "memory" if sum(map(_resident_bytes, members(leader))) > bounds.memory_bytes else None


def members(leader: int) -> list[int]:
    """Process IDs in the process namespace that a sandbox's outermost process made. A program can't leave it."""
    space = next((found for child in _children(leader) if (found := _space(child)) is not None), None)
    if space is None or space == _space(leader):
        return []
    return [pid for pid in map(int, filter(str.isdigit, os.listdir("/proc"))) if _space(pid) == space]  # noqa: PTH208 - quicker


def _children(pid: int) -> list[int]:
    try:
        return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    except OSError:
        return []


def _space(pid: int) -> str | None:
    try:
        return str(Path(f"/proc/{pid}/ns/pid").readlink())
    except OSError:
        return None


def _resident_bytes(pid: int) -> int:
    try:
        return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * _PAGE_BYTES
    except (OSError, IndexError):
        return 0
