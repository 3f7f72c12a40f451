"""Files and folders from elsewhere appear whole or not at all, and what hinders is one line with its place."""

import errno
import os
import shutil
from pathlib import Path

import pytest

from mst.config.moving import copy_whole, move_folder
from mst.errors import InfrastructureError


@pytest.fixture
def source(tmp_path):
    folder = tmp_path / "source"
    (folder / "out").mkdir(parents=True)
    (folder / "a.txt").write_text("a")
    (folder / "out" / "b.txt").write_text("b")
    return folder


def files(folder):
    return {str(path.relative_to(folder)): path.read_text() for path in folder.rglob("*") if path.is_file()}


@pytest.fixture
def another_disk(monkeypatch):
    """Folders cannot be renamed to where they belong, only copied: as from a temporary folder on another disk."""
    rename = os.rename

    def refuse(one, other):
        if Path(one).name == "source":
            raise OSError(errno.EXDEV, "Invalid cross-device link", str(one), None, str(other))
        rename(one, other)

    monkeypatch.setattr(os, "rename", refuse)


@pytest.fixture
def full_disk(monkeypatch):
    """Half of every file that is copied is written, and then there is no space."""

    def half(source, target, **_options):
        Path(target).write_bytes(Path(source).read_bytes()[:1])
        raise OSError(errno.ENOSPC, "No space left on device", str(source), None, str(target))

    monkeypatch.setattr(shutil, "copyfile", half)


def test_a_folder_is_moved_also_to_another_disk(source, tmp_path, another_disk):
    target = tmp_path / "deep" / "down" / "0"
    left = target.with_name(".0.moving")
    left.mkdir(parents=True)
    (left / "half").touch()
    move_folder(source, target)
    assert files(target) == {"a.txt": "a", "out/b.txt": "b"}
    assert not source.exists()
    assert [path.name for path in target.parent.iterdir()] == ["0"]


def test_a_folder_that_does_not_fit_stays_where_it_is(source, tmp_path, another_disk, full_disk):
    target = tmp_path / "deep" / "0"
    with pytest.raises(InfrastructureError) as said:
        move_folder(source, target)
    assert str(said.value) == f"{target}: cannot be written (No space left on device); free space or fix permissions"
    assert files(source) == {"a.txt": "a", "out/b.txt": "b"}
    assert not list(target.parent.iterdir())


def test_a_file_is_copied(source, tmp_path):
    copy_whole(source / "a.txt", tmp_path / "copy")
    assert (tmp_path / "copy").read_text() == "a"


def test_half_a_file_never_has_its_name(source, tmp_path, full_disk):
    target = tmp_path / "into" / "copy"
    target.parent.mkdir()
    with pytest.raises(InfrastructureError, match=r"into/copy: cannot be written \(No space left on device\)"):
        copy_whole(source / "a.txt", target)
    assert not list(target.parent.iterdir())
