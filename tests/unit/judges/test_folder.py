from __future__ import annotations

import asyncio
import stat
import sys
import threading

import pytest

from mst.config.files import IndexedFiles
from mst.errors import DigestMismatch
from mst.judges.folder import call_folder, fill
from mst.testing.judge import write_files


def inside(tmp_path, work):
    async def run():
        async with call_folder(tmp_path / "scratch") as folder:
            return await work(folder)

    return asyncio.run(run())


def test_it_is_private_and_gone_afterwards(tmp_path):
    async def work(folder):
        assert stat.S_IMODE(folder.root.stat().st_mode) == 0o700
        return folder.root

    assert not inside(tmp_path, work).exists()


def test_nothing_of_a_call_that_is_cancelled_while_its_files_are_placed_is_left(tmp_path):
    files = IndexedFiles()
    refs = write_files(tmp_path / "judge", {"a.txt": "a", "b.txt": "b"}, files)
    entered, release = threading.Event(), threading.Event()

    class Slow:
        def locate(self, sha256):
            entered.set()
            release.wait(10)
            return files.locate(sha256)

    async def run():
        async def call():
            async with call_folder(tmp_path / "scratch") as folder:
                await folder.place(refs, Slow(), "files")

        task = asyncio.ensure_future(call())
        await asyncio.to_thread(entered.wait, 10)
        task.cancel()
        for _ in range(20):
            await asyncio.sleep(0)
        assert not task.done()  # the thread still writes there
        release.set()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(run())
    assert list((tmp_path / "scratch").iterdir()) == []


def test_it_goes_even_when_a_program_took_its_permissions_away(tmp_path):
    async def work(folder):
        locked = folder.root / "locked" / "deep"
        locked.mkdir(parents=True)
        (locked / "file").touch()
        locked.chmod(0)
        locked.parent.chmod(0)
        return folder.root

    assert not inside(tmp_path, work).exists()


def test_placed_files_are_copies(tmp_path):
    index = IndexedFiles()
    refs = write_files(tmp_path / "source", {"sub/a.txt": "original"}, index)

    async def work(folder):
        (await folder.place(refs, index, "workspace") / "sub/a.txt").write_text("changed")

    inside(tmp_path, work)
    assert (tmp_path / "source/sub/a.txt").read_text() == "original"


def test_a_file_that_changed_since_it_was_recorded_is_refused(tmp_path):
    index = IndexedFiles()
    refs = write_files(tmp_path / "source", {"a.txt": "original"}, index)
    (tmp_path / "source/a.txt").write_text("changed")
    with pytest.raises(DigestMismatch):
        inside(tmp_path, lambda folder: folder.place(refs, index, "workspace"))


def test_its_path_is_cut_out_of_texts(tmp_path):
    async def work(folder):
        return folder.neutral({"a": [f"in {folder.root}/workspace/m.py", str(folder.root), 1, None]})

    assert inside(tmp_path, work) == {"a": ["in workspace/m.py", ".", 1, None]}


def test_placeholders_are_filled_once_and_other_braces_stay():
    argv = ["{{python}}", "{{ files }}/a", "{{.Names}}", "{{other}}", "{x}"]
    assert fill(argv, {"files": "/f/{{python}}"}) == [
        sys.executable,
        "/f/{{python}}/a",
        "{{.Names}}",
        "{{other}}",
        "{x}",
    ]
