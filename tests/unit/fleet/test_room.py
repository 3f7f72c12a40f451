"""When a worker's disk has no room for another shard."""

import os
from types import SimpleNamespace

import pytest

from mst.errors import UsageError
from mst.fleet.room import MIN_FREE_FILES, Room

GIB = 1024**3


@pytest.fixture
def disk(monkeypatch):
    """A disk of 10 GiB with room in plenty, to be changed."""
    found = SimpleNamespace(
        f_frsize=4096, f_blocks=10 * GIB // 4096, f_bavail=GIB // 4096, f_files=10**6, f_favail=10**5
    )
    monkeypatch.setattr(os, "statvfs", lambda _folder: found)
    return found


def test_just_as_much_as_must_be_free_is_room(disk, tmp_path):
    assert Room(tmp_path, GIB).lack() is None
    assert Room(tmp_path, GIB + 1).lack() == f"1 GiB are free in {tmp_path}, 1 must be"
    disk.f_bavail = 0
    assert Room(tmp_path).lack() == f"0 GiB are free in {tmp_path}, 0.5 must be"


def test_a_disk_that_takes_no_more_files_is_full(disk, tmp_path):
    disk.f_favail = MIN_FREE_FILES
    assert Room(tmp_path).lack() is None
    disk.f_favail -= 1
    assert Room(tmp_path).lack() == f"{MIN_FREE_FILES - 1} more files fit in {tmp_path}, {MIN_FREE_FILES} must"
    disk.f_files = disk.f_favail = 0
    assert Room(tmp_path).lack() is None, "this file system does not count files"


def test_a_folder_that_is_gone_has_no_room(tmp_path):
    assert Room(tmp_path / "gone").lack() == f"{tmp_path / 'gone'}: No such file or directory"


def test_a_disk_that_could_never_have_room_is_refused_at_the_start(disk, tmp_path):
    Room(tmp_path, 10 * GIB).check()
    with pytest.raises(UsageError, match=r"--min-free 11: .* holds 10 GiB in all; ask for less, or set TMPDIR"):
        Room(tmp_path, 11 * GIB).check()
