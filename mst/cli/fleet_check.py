"""The probe of `mst fleet check`: one small shard through broker, worker and store, and back."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mst.process.lastwords import last_words

EVAL_NAME = "fleet-check"
_FORECAST = re.compile(r"mst: \d+ trials?, \d+ at a time")
_EVAL: dict[str, Any] = {
    "name": EVAL_NAME,
    "client": "oracle",
    "datasets": ["cases.yaml"],
    "assertions": ["equals"],
}
_CASES = [{"id": "probe", "input": "ping", "expected": {"answer": "ping"}}]


@dataclass(frozen=True, kw_only=True)
class Probe:
    """How a probe ended.

    Attributes:
        detail: what is wrong, in the words of the command that failed.
        seconds: from sending the shard to having its result.
    """

    ok: bool
    detail: str = ""
    seconds: float = 0.0

    def to_dict(self) -> dict[str, Any]:
        """As `--json` prints it."""
        return {"ok": self.ok, "detail": self.detail, "seconds": round(self.seconds, 3)}


def probe(environment: Mapping[str, str], *, worker_class: str | None, within_s: float) -> Probe:
    """Send a shard as `mst grade --runner celery` does and wait for its verdict. Leaves no file on this machine.

    The store keeps one closed dispatch of the eval `fleet-check`, a few kilobytes.
    """
    with tempfile.TemporaryDirectory(prefix="mst-check-") as scratch:
        folder = Path(scratch)
        (folder / "eval.yaml").write_text(json.dumps(_EVAL), encoding="utf-8")
        (folder / "cases.yaml").write_text(json.dumps(_CASES), encoding="utf-8")
        results = folder / "results"
        made = _mst(["run", f"{folder}/eval.yaml", "--no-grade", "--output-dir", f"{results}"], environment, 60)
        if made is not None:
            return Probe(ok=False, detail=f"here, before anything was sent: {made}")
        (run,) = (results / EVAL_NAME / "runs").iterdir()
        given = {"shards": "1", "deadline_h": f"{within_s / 3600:.6f}"}
        if worker_class is not None:
            given["class"] = worker_class
        options = [part for name, value in given.items() for part in ("--runner-option", f"{name}={value}")]
        began = time.monotonic()
        order = ["grade", f"{run}", "--output-dir", f"{results}", "--runner", "celery"]
        failed = _mst([*order, *options], environment, within_s)
        seconds = time.monotonic() - began
        if failed is not None:
            return Probe(ok=False, detail=failed, seconds=seconds)
        return Probe(ok=True, seconds=seconds)


def _mst(arguments: list[str], environment: Mapping[str, str], within_s: float) -> str | None:
    """Run a command; None when it ended well, else what it said.

    In the folder where this one was given, since settings may name files from there; modules are not looked for in it.
    """
    process = subprocess.Popen(
        [sys.executable, "-P", "-m", "mst", *arguments],
        env=dict(environment),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    try:
        said, _ = process.communicate(timeout=within_s)
    except subprocess.TimeoutExpired:
        # asked first, so that the dispatch is closed and no worker starts it later
        process.terminate()
        try:
            process.communicate(timeout=10)
        except subprocess.TimeoutExpired:
            process.kill()
            process.communicate()
        return f"the shard did not come back within {within_s:g} s"
    if process.returncode == 0:
        return None
    return reason(said)


def reason(said: str) -> str:
    """Why a command failed, of all that it said: not what it was about to do, and of a trace the end."""
    lines = [line for line in said.splitlines() if line.startswith("mst: ") and not _FORECAST.match(line)]
    return last_words(said) if "Traceback (most recent call last)" in said or not lines else " ".join(lines)
