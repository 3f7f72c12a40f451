"""Running `mst` in tests: in this process for quick answers, as a process of its own where signals and ends matter."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest

import mst
from mst.cli import main

SOURCE = str(Path(mst.__file__).parents[1])
PATIENCE_S = 90.0
POLL_S = 0.02


@dataclass(frozen=True)
class Said:
    """What a command said and how it ended."""

    code: int
    out: str
    err: str

    @property
    def error_lines(self) -> list[str]:
        """Lines on stderr that are not empty."""
        return [line for line in self.err.splitlines() if line.strip()]


def call_mst(capsys: pytest.CaptureFixture[str], *arguments: str | Path) -> Said:
    """Run a command in this process and return its exit code and output."""
    capsys.readouterr()
    with patch.object(sys, "argv", ["mst", *map(str, arguments)]), pytest.raises(SystemExit) as ended:
        main()
    captured = capsys.readouterr()
    code = ended.value.code
    return Said(code if isinstance(code, int) else 1, captured.out, captured.err)


def environment(**more: str) -> dict[str, str]:
    """This process's environment, in which `python -m mst` is found from any folder."""
    return {**os.environ, "PYTHONPATH": SOURCE, **more}


def start_mst(
    *arguments: str | Path, cwd: Path, env: Mapping[str, str] | None = None, new_session: bool = False
) -> subprocess.Popen[str]:
    """Start a command as a process; its stdout and stderr are pipes."""
    return subprocess.Popen(
        [sys.executable, "-m", "mst", *map(str, arguments)],
        cwd=cwd,
        env=environment(**(env or {})),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=new_session,
    )


def run_mst(*arguments: str | Path, cwd: Path, env: Mapping[str, str] | None = None) -> Said:
    """Run a command as a process to its end."""
    return ended(start_mst(*arguments, cwd=cwd, env=env))


def ended(process: subprocess.Popen[str]) -> Said:
    """Wait for a command's end. One that does not end in time is killed and fails the test."""
    try:
        out, err = process.communicate(timeout=2 * PATIENCE_S)
    except subprocess.TimeoutExpired:
        process.kill()
        out, err = process.communicate()
        pytest.fail(f"mst did not end: {out}\n{err}")
    return Said(process.returncode, out, err)


def until(found: Callable[[], Any], what: str, *, within_s: float = PATIENCE_S) -> Any:
    """Ask again and again until something is found, and return it; fail the test when time is over."""
    deadline = time.monotonic() + within_s
    pause = threading.Event()
    while True:
        answer = found()
        if answer:
            return answer
        if time.monotonic() > deadline:
            pytest.fail(f"not within {within_s:g} s: {what}")
        pause.wait(POLL_S)
