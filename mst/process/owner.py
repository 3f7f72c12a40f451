"""Who made something that outlives a killed process: so that the next one can tell what nobody owns any more."""

from __future__ import annotations

import os
from pathlib import Path


def owner() -> str:
    """This process, in a way that no other one has: its number, when it started, and where that number means it."""
    return f"{os.getpid()}-{_started(os.getpid())}-{_space()}"


def lives(name: str) -> bool:
    """Whether an owner still runs. What is none of ours, or can't be seen from here, counts as alive."""
    number, _, rest = name.partition("-")
    started, _, space = rest.partition("-")
    if not number.isdigit() or space != _space():
        return True
    return _started(int(number)) == started


def _space() -> str:
    """The namespace of process numbers: an engine, or a folder, may be shared by several."""
    try:
        return str(Path("/proc/self/ns/pid").stat().st_ino)
    except OSError:
        return "0"


def _started(pid: int) -> str | None:
    """When a process started, in the kernel's ticks; `0` where that can't be known, None when there is none."""
    if not Path("/proc/self/stat").exists():
        try:
            os.kill(pid, 0)
        except ProcessLookupError:
            return None
        except PermissionError:
            pass
        return "0"
    try:
        # The name, which may hold anything, ends at the last bracket; the start is the 22nd field.
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[19]
    except OSError:
        return None
