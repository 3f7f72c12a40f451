"""What `mst --help` costs, and what it imports.

python benchmarks/startup.py [--times 15]
"""

from __future__ import annotations

import argparse
import subprocess
import sys
from pathlib import Path

from measuring import hold, least, measure, mst, say

HELP_CPU_S = 0.2


def main() -> int:
    """Measure, print, and fail when the limit is passed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--times", type=int, default=15)
    asked = parser.parse_args()
    here = Path.cwd()
    measure(mst("--help"), cwd=here)  # compiled once, for nobody's account
    python = least([sys.executable, "-c", "pass"], times=asked.times, cwd=here)
    cost = least(mst("--help"), times=asked.times, cwd=here)
    timed = subprocess.run(
        [sys.executable, "-X", "importtime", "-m", "mst", "--help"], capture_output=True, text=True, check=True
    )
    packages = {
        line.rpartition("|")[2].strip().partition(".")[0]
        for line in timed.stderr.splitlines()
        if line.startswith("import time:")
    }
    outside = sorted(packages - set(sys.stdlib_module_names) - {"imported package"})
    say("mst --help", cost=cost, python_alone=python, packages=[name for name in outside if not name.startswith("_")])
    return 0 if hold("mst --help", cost.cpu_s, HELP_CPU_S, "s CPU") else 1


if __name__ == "__main__":
    raise SystemExit(main())
