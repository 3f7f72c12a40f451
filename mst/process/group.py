"""Ending a program with everything that it started.

A child leads a process group of its own, so one signal reaches its whole family. A grandchild that moves to a
session of its own escapes the group; on Linux it is still found by a mark that it inherited in its environment.
"""

from __future__ import annotations

import functools
import os
import secrets
import signal
import sys
import time
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

MARK = "MST_PROCESS"
"""Environment variable that every child inherits; its value is unique to one start."""

_SWEEPS = 5
_BIRTHS_PER_S = 50_000
"""More processes than a machine starts in a second."""
_MANY = 1000
"""To look at so many numbers costs more than to look at the processes that there are."""
_EXEC_S = 0.5
"""Longest look at a process that is becoming another program: microseconds, more where it waits for a processor."""
_FLAGS, _ENV_END = 5, 47
"""Places in what follows the name and the state in `/proc/<pid>/stat`, see proc(5)."""
_KERNEL_THREAD = 0x00200000
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


@dataclass(frozen=True)
class Birth:
    """The moment before a child was started: who carries its mark was born later, and has one of the numbers since."""

    last_pid: int
    at: float

    @classmethod
    def now(cls) -> Birth | None:
        """This moment; None where the machine does not say which number it gave last."""
        last = _last_pid()
        return None if last is None else cls(last, time.monotonic())

    def since(self, pid: int) -> Iterable[int] | None:
        """The numbers given since, or None when they cannot be told from older ones.

        That is so when many were given or all may have been given once more meanwhile, and when the child itself is not
        among them: then this machine does not give them one after another.

        Args:
            pid: of the child.
        """
        last, most = _last_pid(), _pid_max()
        if last is None or (time.monotonic() - self.at) * _BIRTHS_PER_S >= most:
            return None
        count = (last - self.last_pid) % most
        if count > _MANY or not 0 < (pid - self.last_pid) % most <= count:
            return None
        return ((self.last_pid + step) % most for step in range(1, count + 1))


def _last_pid() -> int | None:
    try:
        return int((_PROC / "loadavg").read_bytes().split()[-1])
    except (OSError, ValueError, IndexError):
        return None


@functools.cache
def _pid_max() -> int:
    try:
        return int((_PROC / "sys/kernel/pid_max").read_bytes())
    except (OSError, ValueError):
        return 1


def sweep(pid: int, mark: str, birth: Birth | None = None) -> tuple[str, ...]:
    """Kill what is left of a child's group and everything that carries its mark.

    Args:
        pid: of the child, which leads its group.
        mark: that it was started with.
        birth: a moment before its start, so that not every process of the machine need be looked at.

    Returns:
        Names of the marked programs that were still alive, sorted. Empty where `/proc` is missing: there only the
        group is ended, and nothing is known about those who left it.
    """
    found: dict[int, str] = {}
    for _ in range(_SWEEPS):
        alive = marked(mark, None if birth is None else birth.since(pid))
        signal_group(pid, signal.SIGKILL)
        for other in alive:
            found.setdefault(other, _name(other))
            with suppress(ProcessLookupError, PermissionError):
                os.kill(other, signal.SIGKILL)
        if not alive:
            break
    return tuple(sorted(found.values()))


def marked(mark: str, among: Iterable[int] | None = None) -> list[int]:
    """Process IDs of this user's programs that inherited the mark. Dead ones have no environment and don't count.

    Args:
        mark: as it was given to a child.
        among: the processes to look at; all of the machine unless given.
    """
    if sys.platform != "linux":
        return []
    wanted = f"{MARK}={mark}".encode()
    if among is None:
        # os.listdir and os.open rather than Path: this runs after children, over every process of the machine.
        entries = os.listdir(_PROC)  # noqa: PTH208 - as above
        among = [int(entry) for entry in entries if entry.isdigit()]
    return [pid for pid in among if _carries(pid, wanted)]


def _carries(pid: int, wanted: bytes) -> bool:
    deadline = time.monotonic() + _EXEC_S
    while True:
        environ = _environ(pid)
        if environ is None or environ:
            return environ is not None and wanted in environ
        if not _becomes_another(pid) or time.monotonic() > deadline:
            # It may have become it between the two looks.
            return wanted in (_environ(pid) or b"")
        os.sched_yield()


def _environ(pid: int) -> bytes | None:
    """Its environment; None when it is gone or somebody else's."""
    try:
        handle = os.open(f"/proc/{pid}/environ", os.O_RDONLY)
    except OSError:
        return None
    try:
        pieces = []
        while piece := os.read(handle, 1 << 18):
            pieces.append(piece)
        return b"".join(pieces)
    except OSError:
        return None
    finally:
        os.close(handle)


def _becomes_another(pid: int) -> bool:
    """Whether a process without an environment is just becoming another program, for then it has none yet.

    One that was started with an empty environment has a place for it.
    """
    try:
        state, *rest = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except (OSError, ValueError):
        return False
    return state not in "ZX" and not int(rest[_FLAGS]) & _KERNEL_THREAD and int(rest[_ENV_END]) == 0


def _name(pid: int) -> str:
    try:
        return (_PROC / str(pid) / "comm").read_text().strip()
    except OSError:
        return "(ended)"
