"""Ending a program with everything that it started.

A child leads a process group of its own, so one signal reaches its whole family. A grandchild that moves to a
session of its own escapes the group; on Linux it is still found by a mark that it inherited in its environment.
"""

from __future__ import annotations

import os
import secrets
import signal
import sys
from contextlib import suppress
from pathlib import Path

MARK = "MST_PROCESS"
"""Environment variable that every child inherits; its value is unique to one start."""

_SWEEPS = 5
_PROC = Path("/proc")


def new_mark() -> str:
    """A value for `MARK` that no other start has.

    It begins with the mark of this process, if it has one: sweeping for a shard worker's mark also finds the programs
    that the worker had started when it was killed.
    """
    parent = os.environ.get(MARK)
    own = secrets.token_hex(8)
    return f"{parent}.{own}" if parent else own


def signal_group(pid: int, number: signal.Signals) -> None:
    """Signal the group that a child leads. Silent when the group is gone."""
    # EPERM: macOS says so of a group whose members are all dead but not yet reaped.
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(pid, number)


def sweep(pid: int, mark: str) -> tuple[str, ...]:
    """Kill what is left of a child's group and everything that carries its mark.

    Returns:
        Names of the marked programs that were still alive, sorted. Empty where `/proc` is missing: there only the
        group is ended, and nothing is known about those who left it.
    """
    found: dict[int, str] = {}
    for _ in range(_SWEEPS):
        alive = marked(mark)
        signal_group(pid, signal.SIGKILL)
        for other in alive:
            found.setdefault(other, _name(other))
            with suppress(ProcessLookupError, PermissionError):
                os.kill(other, signal.SIGKILL)
        if not alive:
            break
    return tuple(sorted(found.values()))


def marked(mark: str) -> list[int]:
    """Process IDs of this user's programs that inherited the mark. Dead ones have no environment and don't count."""
    if sys.platform != "linux":
        return []
    wanted = f"{MARK}={mark}".encode()
    # os.listdir and os.open rather than Path: this runs after every child, over every process of the machine.
    entries = os.listdir(_PROC)  # noqa: PTH208 - as above
    return [int(entry) for entry in entries if entry.isdigit() and wanted in _environ(entry)]


def _environ(entry: str) -> bytes:
    try:
        handle = os.open(f"/proc/{entry}/environ", os.O_RDONLY)
    except OSError:
        return b""
    try:
        pieces = []
        while piece := os.read(handle, 1 << 18):
            pieces.append(piece)
        return b"".join(pieces)
    except OSError:
        return b""
    finally:
        os.close(handle)


def _name(pid: int) -> str:
    try:
        return (_PROC / str(pid) / "comm").read_text().strip()
    except OSError:
        return "(ended)"
