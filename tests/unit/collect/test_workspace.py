"""Folders of a trial."""

from __future__ import annotations

import asyncio
import stat
import threading

import pytest

from mst.collect.workspace import in_thread, make_folders
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


def test_on_cancellation_the_thread_is_waited_for():
    release, entered, ended = threading.Event(), threading.Event(), []

    def work():
        entered.set()
        release.wait(10)
        ended.append(True)

    async def scene():
        task = asyncio.ensure_future(in_thread(work))
        await asyncio.to_thread(entered.wait, 10)
        task.cancel()
        await asyncio.sleep(0)
        assert not task.done()
        release.set()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert ended == [True]

    asyncio.run(scene())
