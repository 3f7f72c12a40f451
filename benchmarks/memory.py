"""Peak memory of the coordinator: ten times the trials may need little more.

The eval is `echo` with one assertion and four variants; one process collects, grades and reports, then another grades
again.

python benchmarks/memory.py [--trials 20000] [--runner local]
"""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path

from measuring import hold, measure, mst, say, write_eval

VARIANTS = 4
RATIO = 1.3


def main() -> int:
    """Measure, print, and fail when the limit is passed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--trials", type=int, default=20_000)
    parser.add_argument("--runner", default="local", help="that grades again")
    asked = parser.parse_args()
    costs = {}
    with tempfile.TemporaryDirectory(prefix="mst-bench-") as name:
        for trials in (asked.trials // 10, asked.trials):
            place = Path(name) / str(trials)
            config = write_eval(place, trials // VARIANTS, variants=VARIANTS)
            costs["run", trials] = measure(mst("run", config, "--fail-on", "never"), cwd=place)
            again = mst("grade", "latest", "--runner", asked.runner, "--fail-on", "never")
            costs["grade", trials] = measure(again, cwd=place)
            for what in ("run", "grade"):
                say(f"memory of mst {what}", trials=trials, cost=costs[what, trials])
    kept = [
        hold(
            f"mst {what}, peak memory of {asked.trials} trials over that of a tenth",
            costs[what, asked.trials].peak_rss_mb / costs[what, asked.trials // 10].peak_rss_mb,
            RATIO,
            "times",
        )
        for what in ("run", "grade")
    ]
    return 0 if all(kept) else 1


if __name__ == "__main__":
    raise SystemExit(main())
