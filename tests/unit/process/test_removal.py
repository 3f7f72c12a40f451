"""Removing what programs left, however they left it."""

from __future__ import annotations

import os
import sys

import pytest

from mst.process.removal import remove_tree


def nest(top, levels):
    """Folders in each other, deeper than a path may be long."""
    inside = os.open(top, os.O_RDONLY)
    for _ in range(levels):
        os.mkdir("d", dir_fd=inside)
        os.close(os.open("file", os.O_WRONLY | os.O_CREAT, dir_fd=inside))
        deeper = os.open("d", os.O_RDONLY, dir_fd=inside)
        os.close(inside)
        inside = deeper
    os.close(inside)


def test_folders_deeper_than_paths_and_recursion_reach_go(tmp_path):
    (tmp_path / "top").mkdir()
    nest(tmp_path / "top", sys.getrecursionlimit() * 3)
    remove_tree(tmp_path / "top")
    assert list(tmp_path.iterdir()) == []
    remove_tree(tmp_path / "top")


def test_links_are_removed_and_never_followed(tmp_path):
    kept = tmp_path / "kept"
    kept.mkdir()
    (kept / "file").write_text("x")
    top = tmp_path / "top"
    (top / "in").mkdir(parents=True)
    (top / "link").symlink_to(kept)
    (top / "in" / "link").symlink_to(kept, target_is_directory=True)
    remove_tree(top)
    assert (kept / "file").read_text() == "x"
    (tmp_path / "alias").symlink_to(kept)
    with pytest.raises(OSError, match="alias"):
        remove_tree(tmp_path / "alias")
    assert (kept / "file").exists()


def test_what_was_made_unreadable_goes_too(tmp_path):
    inner = tmp_path / "top" / "a" / "b"
    inner.mkdir(parents=True)
    (inner / "file").write_text("x")
    for place in (inner, inner.parent, tmp_path / "top"):
        place.chmod(0)
    remove_tree(tmp_path / "top")
    assert list(tmp_path.iterdir()) == []
