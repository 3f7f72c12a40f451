"""A worker that lives long stays small."""

import os
import subprocess
import sys

import psutil
import pytest

from mst.testing.commandline import start_mst
from mst.testing.fleet import Bed, fleet

pytestmark = [pytest.mark.server, pytest.mark.slow, pytest.mark.long, pytest.mark.timeout(2400)]

SHARDS = int(os.environ.get("MST_TEST_SHARDS", "500"))
GROWTH_MAX_BYTES = 8 * 1024**2


def test_a_workers_memory_is_flat_over_many_shards_and_nothing_of_them_is_left(tmp_path):
    with fleet(tmp_path / "fleet") as one:
        bed = Bed(one, tmp_path / "quiz", cases=SHARDS)
        bed.ready(1)
        [worker] = one.workers.values()
        process = psutil.Process(worker.process.pid)
        # more parts than cases: nearly every case is a shard of its own
        coordinator = start_mst(*bed.arguments(shards=min(10_000, 12 * SHARDS)), cwd=bed.home, env=one.coordinator)
        sizes: dict[int, int] = {}
        while coordinator.poll() is None:
            sizes[worker.log.count('"attempt_ended"')] = process.memory_info().rss
            try:
                coordinator.wait(0.5)
            except subprocess.TimeoutExpired:
                continue
        said = coordinator.communicate()
        assert coordinator.returncode in (0, 1), said[1]
        done = max(sizes)
        assert done >= 0.9 * SHARDS
        early = max(size for count, size in sizes.items() if count <= done // 10)
        late = max(size for count, size in sizes.items() if count >= 9 * done // 10)
        mib = {"shards": done, "first tenth": early / 1024**2, "last tenth": late / 1024**2}
        sys.stderr.write(f"{ ({name: round(value, 1) for name, value in mib.items()}) }\n")
        assert late - early <= GROWTH_MAX_BYTES, mib
        assert [child for child in process.children(recursive=True) if "mst" in " ".join(child.cmdline())] == []
