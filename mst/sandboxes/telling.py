"""How a sandbox tells what a program left running: a shell around it that looks when it has ended."""

from __future__ import annotations

import os
import stat
from pathlib import Path

_LEFT_BYTES = 4096
# Runs the program, then tells the names of what it left running. Process 1 is the sandbox's own. When all are asked to
# end, this shell stays until the program did.
SCRIPT = (
    'left=$1; shift; trap : TERM; exec 8>&2 2>/dev/null; (exec "$@" 2>&8 8>&-); code=$?; for place in /proc/[0-9]*; do '
    '[ "$place" = /proc/1 ] || [ "$place" = "/proc/$$" ] || '
    '{ line=; read -r line <"$place/cmdline"; [ -z "$line" ] || cat "$place/comm"; } 2>/dev/null; '
    'done >"$left"; exit $code'
)


def telling(left: Path) -> list[str]:
    """Arguments to put before a program's, so that the names of what it leaves go to a file, as seen inside."""
    return ["/bin/sh", "-c", SCRIPT, "sh", str(left)]


def names_left(told: Path) -> tuple[str, ...]:
    """What was told, sorted. The program could reach this file and put anything there: it is read with care."""
    try:
        handle = os.open(told, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    except OSError:
        return ()
    with os.fdopen(handle, "rb") as stream:
        text = stream.read(_LEFT_BYTES) if stat.S_ISREG(os.fstat(handle).st_mode) else b""
    return tuple(sorted(text.decode(errors="replace").split("\n")[:-1]))
