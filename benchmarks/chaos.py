"""A long chaos run: a thousand shards while workers, coordinators, broker and store are broken, by a seed.

    python benchmarks/chaos.py --seed 1                  about a thousand shards, half an hour on two cores
    python benchmarks/chaos.py --shards 100 --cases 60   a quick look

Ends with an error when a unit was lost, counted twice, or paid for again by an attempt that began after its result was
durable, or when the grading differs from that of one process in any byte that may not differ.
"""

from __future__ import annotations

import argparse
import json
import tempfile
from pathlib import Path

from mst.testing.chaos import Chaos
from mst.testing.commandline import start_mst
from mst.testing.fleet import Bed, fleet

HERE_S = 3600.0
"""How long one process may take for the same grading."""


def main() -> int:
    """Run it, print the report as JSON, and say whether it holds."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--cases", type=int, default=1050)
    parser.add_argument("--shards", type=int, default=10_000, help="to split into; those without cases are not sent")
    parser.add_argument("--workers", type=int, default=4)
    parser.add_argument("--faults-s", type=float, default=1800.0, help="faults go on for so long at most")
    parser.add_argument("--every-s", type=float, default=3.0, help="mean time between faults")
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="mst-chaos-") as name, fleet(Path(name) / "fleet") as one:
        bed = Bed(one, Path(name) / "quiz", cases=asked.cases)
        here = start_mst("grade", bed.source.path, cwd=bed.home)
        _, said = here.communicate(timeout=HERE_S)
        if here.returncode not in (0, 1):
            raise SystemExit(said)
        bed.quiz.forget()
        chaos = Chaos(
            bed,
            bed.newest(),
            seed=asked.seed,
            shards=asked.shards,
            workers=asked.workers,
            faults_s=asked.faults_s,
            every_s=asked.every_s,
        )
        report = chaos.run()
    print(json.dumps(report.to_dict(), indent=2))
    return 1 if report.lost or report.different or report.paid_twice or report.broken_rules else 0


if __name__ == "__main__":
    raise SystemExit(main())
