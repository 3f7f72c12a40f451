"""Runs an embedded broker and ends it when its owner goes away, however that happens.

Started as a program of its own, so it needs the standard library only. The owner holds the other end of standard
input: when the owner dies, even by `kill -9`, it closes, and the broker is stopped and its folder removed. Should the
guard itself be killed, Linux ends the broker (parent-death signal). A broker that dies is started again on its
append-only file, a few times.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import select
import shutil
import signal
import subprocess
import sys
from pathlib import Path
from types import FrameType

RESTARTS = 5
LOOK_S = 0.25
STOP_S = 5.0
LOG_NAME = "broker.log"
_PR_SET_PDEATHSIG = 1


class _Asked(Exception):
    """A signal asked the guard to stop."""


def main(arguments: list[str]) -> int:
    """Guard one broker: `PROGRAM CONFIG FOLDER`. Ends after the broker did and the folder is gone."""
    program, config, folder = arguments
    signal.signal(signal.SIGTERM, _ask)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    server = _start(program, config)
    try:
        server = _watch(server, program, config)
    except _Asked:
        pass
    finally:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        _stop(server)
        shutil.rmtree(folder, ignore_errors=True)
    return 0


def _watch(server: subprocess.Popen[bytes], program: str, config: str) -> subprocess.Popen[bytes]:
    """Until the owner is gone, or the broker died too often."""
    restarts = 0
    while not _owner_is_gone():
        if server.poll() is None:
            continue
        if restarts == RESTARTS:
            break
        restarts += 1
        server = _start(program, config)
    return server


def _owner_is_gone() -> bool:
    """Wait a moment for the end of standard input."""
    readable, _, _ = select.select([0], [], [], LOOK_S)
    return bool(readable) and not os.read(0, 64)


def _start(program: str, config: str) -> subprocess.Popen[bytes]:
    # This process has one thread and is the broker's parent, so the signal comes when it ends, not sooner.
    # What it says before it has read where its log is, as of a setting that it does not know, goes there too.
    with Path(config).with_name(LOG_NAME).open("ab") as log:
        return subprocess.Popen(
            [program, config],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            preexec_fn=_die_with_parent if sys.platform == "linux" else None,  # noqa: PLW1509 - one thread here
        )


def _die_with_parent() -> None:
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGTERM, 0, 0, 0)


def _stop(server: subprocess.Popen[bytes]) -> None:
    for end in (server.terminate, server.kill):
        with contextlib.suppress(ProcessLookupError):
            end()
        try:
            server.wait(STOP_S)
        except subprocess.TimeoutExpired:
            continue
        return


def _ask(number: int, frame: FrameType | None) -> None:
    del number, frame
    raise _Asked


if __name__ == "__main__":
    if len(sys.argv) != 4 or not Path(sys.argv[1]).is_file():
        sys.exit("usage: broker_guard PROGRAM CONFIG FOLDER")
    sys.exit(main(sys.argv[1:]))
