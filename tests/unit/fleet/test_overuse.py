"""What a shard uses of disk and time, as its worker finds out."""

import subprocess
import sys
from functools import partial

import pytest

from mst.errors import UsageError
from mst.fleet.confine import ShardBounds
from mst.fleet.overuse import Overuse, cap_files
from mst.process.space import used_bytes
from mst.testing.commandline import until

MIB = 1024**2


def test_too_much_disk_is_found_and_named(tmp_path):
    with Overuse(partial(used_bytes, [tmp_path]), disk_bytes=2 * MIB, time_s=None, pace_s=0.01) as watch:
        assert watch.found() is None
        (tmp_path / "large").write_bytes(b"x" * 3 * MIB)
        reason, detail = until(watch.found, "the watch has seen it")
    assert (reason, detail) == ("disk", "the shard used more than the 0.00195 GiB of disk that it may")


def test_too_much_time_is_found_and_named():
    with Overuse(unasked, disk_bytes=None, time_s=0.0) as watch:
        assert watch.found() == ("time", "the shard took longer than the 0 s that it may")


def unasked(_most, _stop):
    pytest.fail("nobody need add up what has no bound")


def test_without_bounds_nothing_is_found():
    with Overuse(unasked, disk_bytes=None, time_s=None) as watch:
        assert watch.found() is None


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux caps another process")
def test_the_kernel_refuses_a_larger_file_to_a_process_and_what_it_starts(tmp_path):
    script = (
        "import subprocess, sys; sys.stdin.read(1); "
        "subprocess.run([sys.executable, '-c', \"open('large', 'wb').write(b'x' * 3_000_000)\"])"
    )
    process = subprocess.Popen([sys.executable, "-c", script], cwd=tmp_path, stdin=subprocess.PIPE,
                               stderr=subprocess.PIPE)  # fmt: skip
    cap_files(process.pid, MIB)
    _, said = process.communicate(b"x", timeout=60)
    assert (tmp_path / "large").stat().st_size <= MIB
    assert b"File too large" in said


def test_bounds_of_disk_and_time_need_no_control_group():
    assert not ShardBounds(disk_bytes=1, time_s=1).needs_group
    assert ShardBounds(pids=100).needs_group


def test_more_disk_than_is_free_is_refused(tmp_path):
    with pytest.raises(UsageError, match="are free in"):
        ShardBounds(disk_bytes=2**60).check(tmp_path)
    ShardBounds(disk_bytes=1, time_s=1).check(tmp_path)
