"""Folders of a trial."""

from __future__ import annotations

import stat

import pytest

from mst.collect.workspace import make_folders
from mst.errors import ClientError
from mst.process.removal import remove_tree


def test_folders_are_private(tmp_path):
    folders = make_folders(tmp_path, with_workspace=True)
    assert stat.S_IMODE(folders.root.stat().st_mode) == 0o700
    assert folders.workspace.is_dir()
    assert make_folders(tmp_path, with_workspace=False).workspace is None


def test_no_place_for_them_is_the_environments_fault(tmp_path):
    with pytest.raises(ClientError, match="no folder for the trial"):
        make_folders(tmp_path / "gone", with_workspace=True)


def test_removing_is_silent_about_what_is_gone(tmp_path):
    (tmp_path / "x/y").mkdir(parents=True)
    remove_tree(tmp_path / "x")
    remove_tree(tmp_path / "x")
    assert list(tmp_path.iterdir()) == []
