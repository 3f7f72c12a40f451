"""Compare scaling policies: `python benchmarks/fleet_sim/compare.py [--most 200] [--json FILE]`.

Prints for each trace and policy: cost, makespan, waste, mean wait, units repeated, and how many machines were taken
from their work. With `--sizes` the largest fleet: 10 to 10,000 workers under the default policy.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from dataclasses import asdict
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))
sys.path.insert(0, str(Path(__file__).parent))

from model import Policy, Result, Simulation, World
from traces import TRACES

from mst.fleet.scale import Rule

SIZES = (10, 100, 1000, 10_000)


def policies(most: int) -> list[Policy]:
    """What is compared; the default of `mst fleet scale` and the Terraform modules is `backlog/1, self 2 min`."""
    one, two, four = Rule(target=1, most=most), Rule(target=2, most=most), Rule(target=4, most=most)
    return [
        Policy(name="backlog/1, self 5 min", rule=one),
        Policy(name="backlog/1, self 1 min", rule=one, idle_s=60),
        Policy(name="backlog/1, self 2 min", rule=one, idle_s=120),
        Policy(name="backlog/1, self 15 min", rule=one, idle_s=900),
        Policy(name="backlog/2, self 5 min", rule=two),
        Policy(name="backlog/4, self 5 min", rule=four),
        Policy(name="backlog/1, +10 a look, self 5 min", rule=Rule(target=1, most=most, step=10)),
        Policy(name="backlog/1, metric, protected", rule=one, shrink="protected"),
        Policy(name="backlog/1, metric, unprotected", rule=one, shrink="metric"),
        Policy(name="queued/1, metric, unprotected", rule=one, counts_running=False, shrink="metric"),
        Policy(name="queued/1, metric, protected", rule=one, counts_running=False, shrink="protected"),
    ]


def row(name: str, found: Result) -> str:
    """One line of a table."""
    wait = found.wait_s / found.waits if found.waits else 0.0
    return (
        f"| {name} | {found.cost_usd:.2f} | {found.makespan_s / 3600:.2f} | {found.waste:.0%} | {wait / 60:.1f} "
        f"| {found.repeated_units} | {found.taken_from_work} | {found.peak} |"
    )


HEAD = """| policy | cost USD | makespan h | waste | wait min | units repeated | taken from work | peak |
| --- | --- | --- | --- | --- | --- | --- | --- |"""


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--most", type=int, default=100)
    parser.add_argument("--shards", type=int, default=400)
    parser.add_argument("--json", type=Path)
    parser.add_argument("--sizes", action="store_true")
    given = parser.parse_args()
    kept: dict[str, dict[str, object]] = {}
    if given.sizes:
        sizes(kept)
    else:
        for trace, make in TRACES.items():
            print(f"\n{trace}: {given.shards} shards, at most {given.most} workers\n\n{HEAD}")
            for policy in policies(given.most):
                found = Simulation(make(given.shards), World(), policy).run()
                print(row(policy.name, found))
                kept[f"{trace}: {policy.name}"] = asdict(found)
    if given.json is not None:
        given.json.write_text(json.dumps(kept, indent=1) + "\n")


def sizes(kept: dict[str, dict[str, object]]) -> None:
    """The default policy from ten to ten thousand workers."""
    print(HEAD)
    for most in SIZES:
        began = time.monotonic()
        policy = policies(most)[2]
        found = Simulation(TRACES["burst"](most * 4), World(), policy).run()
        print(row(f"{most} workers, {most * 4} shards (simulated in {time.monotonic() - began:.1f} s)", found))
        kept[str(most)] = asdict(found)


if __name__ == "__main__":
    main()
