"""Running a program and saying what it cost: CPU time first, since that is what a busy machine does not change."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any


@dataclass(frozen=True)
class Cost:
    """Of one finished program with all that it started and waited for."""

    wall_s: float
    cpu_s: float
    peak_rss_mb: float
    """Of the program itself, without what it started."""


def measure(argv: Sequence[str | Path], *, cwd: Path, ok: Sequence[int] = (0,)) -> Cost:
    """Run a program to its end. Its output is shown when it ends with another code than `ok`.

    Raises:
        SystemExit: the program failed; a benchmark of a failing program says nothing.
    """
    started = time.perf_counter()
    process = subprocess.Popen(
        [str(part) for part in argv],
        cwd=cwd,
        env={**os.environ, "NO_COLOR": "1"},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
    )
    assert process.stdout is not None
    output: list[bytes] = []
    reader = threading.Thread(target=lambda: output.append(process.stdout.read()))
    reader.start()
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    reader.join()
    if process.returncode not in ok:
        sys.stderr.write(b"".join(output).decode(errors="replace")[-4000:])
        raise SystemExit(f"{' '.join(map(str, argv))} ended with {process.returncode}")
    return Cost(
        wall_s=round(time.perf_counter() - started, 3),
        cpu_s=round(usage.ru_utime + usage.ru_stime, 3),
        peak_rss_mb=round(usage.ru_maxrss / 1024, 1),
    )


def least(argv: Sequence[str | Path], *, times: int, **rest: Any) -> Cost:
    """The run with the least CPU time of several: noise only ever adds."""
    return min((measure(argv, **rest) for _ in range(times)), key=lambda cost: cost.cpu_s)


def say(label: str, **figures: Any) -> None:
    """One JSON line of figures."""
    plain = {key: asdict(value) if isinstance(value, Cost) else value for key, value in figures.items()}
    print(json.dumps({"benchmark": label, **plain}), flush=True)


def hold(label: str, value: float, limit: float, unit: str) -> bool:
    """Print one figure beside its limit; returns whether it is kept."""
    kept = value <= limit
    print(f"{'ok  ' if kept else 'OVER'}  {label}: {value:.3g} {unit} (limit {limit:g})", flush=True)
    return kept


def mst(*arguments: str | Path) -> list[str | Path]:
    """The command line of `mst` in this Python."""
    return [sys.executable, "-m", "mst", *arguments]


def write_eval(folder: Path, cases: int, *, variants: int = 1) -> Path:
    """An eval of `echo` with one assertion a case; returns its config."""
    folder.mkdir(parents=True, exist_ok=True)
    lines = (
        json.dumps({"id": f"c{i}", "input": f"Say hello to item {i}", "assertions": [{"contains_text": f"item {i}"}]})
        for i in range(cases)
    )
    (folder / "cases.jsonl").write_text("\n".join(lines) + "\n")
    names = [{"name": f"v{i}"} for i in range(variants)]
    config = folder / "eval.json"
    config.write_text(
        json.dumps({"name": "overhead", "client": "echo", "datasets": [{"file": "cases.jsonl"}], "variants": names})
    )
    return config
