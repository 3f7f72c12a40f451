"""Standard streams as the process was given them: closed, full, or with nobody at the other end any more."""

from __future__ import annotations

import io
import os
import sys

STREAMS = 3


def settle_streams() -> None:
    """Make the standard streams safe to use, once, before anything else is opened.

    A closed one becomes the null device: otherwise the next file that is opened has its number, and gets what is
    printed. What stderr does not take is dropped: a log on a full disk, or a terminal that went away, ends no run. What
    nobody reads from stdout is dropped too: after `| head` a command still ends with the exit code that it has. A
    stdout that is full is an error, since what was asked for is not there.
    """
    closed = [number for number in range(STREAMS) if not _is_open(number)]
    for _number in closed:
        # the lowest free number is the closed one's
        os.set_inheritable(os.open(os.devnull, os.O_RDWR), True)
    if 1 in closed or sys.stdout is sys.__stdout__:
        sys.stdout = _text(_Forgiving(1, BrokenPipeError), sys.__stdout__)
    if 2 in closed or sys.stderr is sys.__stderr__:
        sys.stderr = _text(_Forgiving(2, OSError), sys.__stderr__)


class _Forgiving(io.FileIO):
    """A standard stream for writing that takes what it is given, also when some errors say that it does not."""

    def __init__(self, number: int, forgiven: type[OSError]) -> None:
        super().__init__(number, "w", closefd=False)
        self._forgiven = forgiven

    def write(self, data: object) -> int | None:  # type: ignore[override]  # bytes-like, as in what it overrides
        try:
            return super().write(data)  # type: ignore[arg-type]
        except self._forgiven:
            return memoryview(data).nbytes  # type: ignore[arg-type]


def _text(raw: io.FileIO, like: io.TextIOBase | None) -> io.TextIOWrapper:
    """A text stream over it that never fails on a character: what the encoding lacks is escaped."""
    encoding = (like.encoding if like is not None else None) or "utf-8"
    return io.TextIOWrapper(
        io.BufferedWriter(raw),
        encoding=encoding,
        errors="backslashreplace",
        line_buffering=raw.isatty() or raw.fileno() == 2,
    )


def _is_open(number: int) -> bool:
    try:
        os.fstat(number)
    except OSError:
        return False
    return True
