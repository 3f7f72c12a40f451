"""How long a shard of one trivial case takes on warm workers of an embedded fleet: from enqueue to committed manifest.

Both ends are read from the store: the bundle is there before the message is sent, the manifest is the commit. So the
figure includes the sending, the queue, the lease, a new shard worker process and everything that it writes.

python benchmarks/shard_latency.py [--times 7]
"""

from __future__ import annotations

import argparse
import os
import subprocess
import tempfile
from pathlib import Path

from measuring import hold, measure, mst, say, write_eval

from mst import __version__
from mst.fleet.embedded_fleet import EmbeddedFleet
from mst.fleet.queues import queue_name

LATENCY_S = 1.0


def latency_s(dispatch: Path) -> float:
    """From the bundle's last write to the manifest's."""
    (bundle,) = (dispatch / "bundles").iterdir()
    (manifest,) = dispatch.glob("shards/0/manifest*.json")
    return (manifest.stat().st_mtime_ns - bundle.stat().st_mtime_ns) / 1e9


def main() -> int:
    """Measure, print, and fail when the limit is passed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--times", type=int, default=7)
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="mst-bench-") as name:
        place = Path(name)
        store = place / "store"
        store.mkdir()
        measure(mst("run", write_eval(place, 1), "--fail-on", "never"), cwd=place)
        queue = queue_name("grade", mst_version=__version__)
        fleet = EmbeddedFleet(
            store_uri=f"file:{store}",
            workers=2,
            queue=queue,
            logs=place / "logs",
        )
        try:
            environ = {**os.environ, **fleet.environ()}
            grade = [str(word) for word in mst("grade", "latest", "--runner", "celery", "--fail-on", "never")]
            for _ in range(asked.times + 1):
                subprocess.run(grade, cwd=place, env=environ, check=True, capture_output=True)
        finally:
            fleet.stop()
        dispatches = sorted(store.glob("*/dispatches/*/d1"), key=lambda path: path.stat().st_mtime_ns)
        found = sorted(latency_s(dispatch) for dispatch in dispatches[1:])  # the first one warms the workers up
    say("shard latency", seconds=[round(value, 3) for value in found])
    return 0 if hold("one trivial case, median", found[len(found) // 2], LATENCY_S, "s") else 1


if __name__ == "__main__":
    raise SystemExit(main())
