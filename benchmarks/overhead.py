"""What the harness itself costs: trials of a program that does nothing, collected and graded, all files on disk.

CPU milliseconds a trial on top of start-up, which is the same eval with one case. Beside it, in the same minute on the
same machine, other harnesses on the same work: Inspect AI writes its log file, pydantic-evals stores nothing.

    python benchmarks/overhead.py [--trials 1000] [--times 3] [--peers PYTHON]
"""

from __future__ import annotations

import argparse
import shutil
import sys
import tempfile
from pathlib import Path

from measuring import Cost, hold, least, measure, mst, say, write_eval

PEERS = Path(__file__).parent / "peers"
COLLECT_AND_GRADE_MS = 2.0
REGRADE_MS = 0.8


def figure(program: str, what: str, costs: dict[tuple[str, int], Cost], trials: int) -> float:
    """CPU milliseconds a trial on top of start-up, printed with what they come from."""
    one, many = costs[what, 1], costs[what, trials]
    found = (many.cpu_s - one.cpu_s) / (trials - 1) * 1000
    say(f"{program} {what}", trials=trials, ms_per_trial=round(found, 3), start_up=one, whole=many)
    return found


def ours(folder: Path, trials: int, times: int) -> bool:
    """`mst run` and `mst grade`; returns whether both limits are kept."""
    costs: dict[tuple[str, int], Cost] = {}
    for count in (1, trials):
        place = folder / f"mst-{count}"
        config = write_eval(place, count)
        # A single case costs little, so the start-up can be measured more often.
        rounds = times if count > 1 else times + 2
        costs["run", count] = least(mst("run", config, "--fail-on", "never"), times=rounds, cwd=place)
        costs["grade", count] = least(mst("grade", "latest", "--fail-on", "never"), times=rounds, cwd=place)
    figures = {what: figure("mst", what, costs, trials) for what in ("run", "grade")}
    kept = [
        hold("mst run, a trial collected and graded", figures["run"], COLLECT_AND_GRADE_MS, "ms CPU"),
        hold("mst grade, a trial graded again", figures["grade"], REGRADE_MS, "ms CPU"),
    ]
    return all(kept)


def inspect_ai(python: Path, folder: Path, trials: int, times: int) -> None:
    """`inspect eval` and `inspect score` on the same work."""
    program = python.with_name("inspect")
    for script in ("inspect_echo.py", "inspect_scorer.py"):  # it takes relative paths only
        shutil.copy(PEERS / script, folder)
    costs: dict[tuple[str, int], Cost] = {}
    for count in (1, trials):
        logs = folder / f"inspect-{count}"
        logs.mkdir()
        task = [program, "eval", "inspect_echo.py", "-T", f"n={count}", "--log-dir", logs, "--display", "none"]
        costs["eval", count] = least(task, times=times, cwd=folder)
        log = sorted(logs.glob("*.eval"))[-1]
        again = [program, "score", log, "--scorer", "inspect_scorer.py", "--action", "overwrite", "--output-file"]
        # It asks before it overwrites, so each goes to a file of its own.
        scored = [measure([*again, folder / f"again-{count}-{n}.eval"], cwd=folder) for n in range(times)]
        costs["score", count] = min(scored, key=lambda cost: cost.cpu_s)
    for what in ("eval", "score"):
        figure("inspect", what, costs, trials)


def pydantic_evals(python: Path, folder: Path, trials: int, times: int) -> None:
    """The same work in memory: nothing is stored."""
    script = PEERS / "pydantic_echo.py"
    costs = {("evaluate", n): least([python, script, str(n)], times=times, cwd=folder) for n in (1, trials)}
    figure("pydantic-evals", "evaluate", costs, trials)


def main() -> int:
    """Measure, print, and fail when a limit is passed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--trials", type=int, default=1000)
    parser.add_argument("--times", type=int, default=3)
    parser.add_argument("--peers", type=Path, help="a Python that has inspect-ai and pydantic-evals")
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="mst-bench-") as name:
        folder = Path(name)
        measure([sys.executable, "-c", "import mst"], cwd=folder)  # compiled once, for nobody's account
        kept = ours(folder, asked.trials, asked.times)
        if asked.peers:
            python = asked.peers.absolute()
            inspect_ai(python, folder, asked.trials, min(asked.times, 2))
            pydantic_evals(python, folder, asked.trials, asked.times)
    return 0 if kept else 1


if __name__ == "__main__":
    raise SystemExit(main())
