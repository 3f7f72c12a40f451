"""What one shard may use of its machine, kept by the kernel."""

import subprocess

import pytest

from mst.fleet.confine import ShardBounds, confined, join
from mst.sandboxes.cgroup import find_place
from mst.testing.commandline import ended
from mst.testing.fleet import Bed, fleet

pytestmark = pytest.mark.server


@pytest.fixture(autouse=True)
def _needs_groups():
    if find_place() is None:
        pytest.skip("no control group can be made here")


def test_a_judge_that_uses_too_much_memory_is_ended_and_its_shard_goes_on(tmp_path):
    with fleet(tmp_path / "fleet") as one:
        bed = Bed(one, tmp_path / "quiz", cases=1)
        judge = bed.home / "judge.py"
        judge.write_text(f"import os, sys\nkept = bytearray(600 * 1024**2)\n{judge.read_text()}")
        one.start("--shard-memory", "0.25")
        said = ended(bed.start("--config", bed.quiz.config, shards=1))
        assert said.code == 3, said.err
        [worker] = one.workers.values()
        assert worker.process.poll() is None
        # the kernel ended the judge, not its worker: one attempt, and a grading error for each answer
        [machine] = bed.newest().run().grading.runner.machines
        assert (machine.ok, len(machine.attempts)) == (True, 1)
        assert bed.newest().run().phases.grade == "partial"


def test_bounds_that_are_wide_enough_change_nothing(tmp_path):
    with fleet(tmp_path / "fleet") as one:
        bed = Bed(one, tmp_path / "quiz", cases=2)
        one.start("--shard-memory", "2", "--shard-cpus", "2", "--shard-pids", "200")
        said = bed.grade(shards=1)
        assert said.code in (0, 1), said.err
        assert set(bed.quiz.calls().values()) == {1}


def test_without_bounds_no_group_is_made():
    with confined(ShardBounds()) as group:
        assert group is None


def test_a_group_is_gone_afterwards_with_all_that_ran_in_it():
    with confined(ShardBounds(pids=50)) as group:
        process = subprocess.Popen(["sleep", "100"])
        join(group, process.pid)
        folders = group.folders
        assert all(str(process.pid) in (folder / "cgroup.procs").read_text().split() for folder in folders)
    assert process.wait(10) == -9
    assert not any(folder.exists() for folder in folders)
