"""A short chaos run: everything that may break does, and the grading is that of one quiet process all the same."""

import pytest

from mst.testing.chaos import Chaos
from mst.testing.fleet import Bed, fleet

pytestmark = [pytest.mark.server, pytest.mark.slow, pytest.mark.timeout(600)]


@pytest.mark.parametrize("seed", [1])
def test_nothing_is_lost_counted_twice_or_paid_twice(tmp_path, seed):
    with fleet(tmp_path / "fleet") as one:
        bed = Bed(one, tmp_path / "quiz", cases=36)
        chaos = Chaos(bed, bed.here(), seed=seed, shards=30, workers=3, faults_s=45, every_s=1.0)
        report = chaos.run()
    assert report.different == []
    assert report.lost == []
    assert report.paid_twice == []
    assert report.broken_rules == []
    # how many fit into its minute depends on how busy the machine is
    assert sum(report.faults.values()) >= 5
