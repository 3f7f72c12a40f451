"""Control groups: where they are found, for both versions, in a tree of plain files; and one for real."""

from __future__ import annotations

import os
import subprocess

import pytest

from mst.errors import InfrastructureError
from mst.sandboxes.cgroup import Group, Limits, Place, find_place, place_in, reap


def tree(root, files):
    for path, text in files.items():
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_text(text)


def test_version_1_is_found_below_this_process_s_own_group(tmp_path):
    points = {name: tmp_path / name for name in ("memory", "pids", "cpu")}
    for point in points.values():
        (point / "mine").mkdir(parents=True)
    mounts = [f"1 1 0:1 / {point} rw - cgroup cgroup rw,{name}" for name, point in points.items()]
    groups = "9:cpu:/mine\n8:pids:/\n4:memory:/mine\n0::/\n"
    tree(tmp_path / "proc", {"cgroup": groups, "mountinfo": "\n".join(mounts) + "\n"})
    place = place_in(tmp_path / "proc", tmp_path / "none")
    assert place.version == 1
    assert place.folders["memory"] == points["memory"] / "mine"
    assert place.folders["pids"] == points["pids"]


def test_version_1_in_a_container_that_sees_its_group_as_the_root(tmp_path):
    (tmp_path / "m").mkdir()
    (tmp_path / "p").mkdir()
    mounts = (
        f"1 1 0:1 /docker/x {tmp_path}/m rw - cgroup c rw,memory\n1 1 0:1 /docker/x {tmp_path}/p rw - cgroup c rw,pids"
    )
    tree(tmp_path / "proc", {"cgroup": "4:memory:/docker/x\n8:pids:/docker/x\n", "mountinfo": mounts})
    assert place_in(tmp_path / "proc", tmp_path / "none").folders["memory"] == tmp_path / "m"


def test_version_2_where_limits_are_passed_on(tmp_path):
    tree(tmp_path / "proc", {"cgroup": "0::/user/me\n", "mountinfo": ""})
    own = "fs/user/me/"
    tree(
        tmp_path, {own + "cgroup.controllers": "cpu memory pids\n", own + "cgroup.subtree_control": "memory pids cpu\n"}
    )
    place = place_in(tmp_path / "proc", tmp_path / "fs")
    assert (place.version, place.folders["pids"]) == (2, tmp_path / "fs/user/me")


def test_version_2_that_was_not_delegated_is_no_place(tmp_path):
    tree(tmp_path / "proc", {"cgroup": "0::/user/me\n", "mountinfo": ""})
    tree(tmp_path, {"fs/user/me/cgroup.controllers": "cpu\n", "fs/user/me/cgroup.subtree_control": "\n"})
    assert place_in(tmp_path / "proc", tmp_path / "fs") is None


def test_a_controller_that_is_missing_is_named(tmp_path):
    with pytest.raises(InfrastructureError, match="cpu"):
        Group(Place(2, {"memory": tmp_path, "pids": tmp_path}), Limits(memory_bytes=1, pids=8, cpus=1.0))


def test_a_real_group_ends_what_is_in_it_and_goes():
    place = find_place()
    if place is None:
        pytest.skip("no control groups can be made here")
    group = Group(place, Limits(memory_bytes=64 << 20, pids=16))
    joined = " && ".join(f"echo 0 > {folder}/cgroup.procs" for folder in group.folders)
    sleeper = subprocess.Popen(["sh", "-c", f"{joined} && echo in && exec sleep 300"], stdout=subprocess.PIPE)
    with sleeper.stdout as said:
        assert said.readline() == b"in\n"
    group.remove()
    assert sleeper.wait(10) == -9
    assert not any(folder.exists() for folder in group.folders)
    assert group.reached() == {}
    group.remove()


def test_groups_of_processes_that_are_gone_are_removed_and_no_others(tmp_path):
    mine, other = tmp_path / f"mst-{os.getpid()}-aa", tmp_path / "mst-not-a-number"
    lost = tmp_path / "mst-999999999-bb"
    for folder in (mine, other, lost):
        folder.mkdir()
    place = Place(2, {"memory": tmp_path, "pids": tmp_path})
    assert reap(place) == [lost.name]
    assert reap(place) == []
    assert {entry.name for entry in tmp_path.iterdir()} == {mine.name, other.name}
