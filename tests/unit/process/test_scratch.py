"""Folders for a while: gone at the end, and those of killed processes with the next one."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile

import pytest

from mst.process.owner import lives, owner
from mst.process.scratch import reap_folders, scratch_folder


@pytest.fixture(autouse=True)
def _here(tmp_path, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))


def test_it_is_private_and_gone_at_the_end(tmp_path):
    with scratch_folder("unit") as folder:
        assert folder.parent == tmp_path
        assert folder.stat().st_mode & 0o777 == 0o700
        (folder / "file").write_text("x")
    assert list(tmp_path.iterdir()) == []


def test_what_a_killed_process_left_goes_with_the_next_one(tmp_path):
    code = (
        "import os, sys\n"
        "from mst.process.scratch import scratch_folder\n"
        "with scratch_folder('unit') as folder:\n"
        "    (folder / 'deep').mkdir(); (folder / 'deep' / 'file').write_text('x'); (folder / 'deep').chmod(0)\n"
        "    print(folder, flush=True); os.kill(os.getpid(), 9)\n"
    )
    environment = {**os.environ, "TMPDIR": str(tmp_path), "PYTHONPATH": os.pathsep.join(sys.path)}
    said = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=False)
    assert said.returncode == -9, said
    [left] = tmp_path.iterdir()
    assert str(left) == said.stdout.strip()
    with scratch_folder("unit") as mine:
        assert list(tmp_path.iterdir()) == [mine]


def test_only_folders_of_processes_that_are_gone_are_removed(tmp_path):
    number, started, space = owner().split("-")
    kept = [f"mst-unit-{owner()}-ab", f"mst-unit-1-1-{int(space) + 1}-ab", "mst-unit-x-1-1-ab", "mst-36lhnqqy", "other"]
    gone = [f"mst-unit-{number}-{int(started) - 1}-{space}-ab", f"mst-unit-999999999-1-{space}-ab"]
    for name in kept + gone:
        (tmp_path / name).mkdir()
    target = tmp_path / "other" / "file"
    target.write_text("x")
    (tmp_path / f"mst-unit-999999999-2-{space}-link").symlink_to(target.parent)
    assert reap_folders(tmp_path) == sorted(gone)
    assert reap_folders(tmp_path) == []
    assert target.exists()
    assert {entry.name for entry in tmp_path.iterdir()} >= set(kept)


def test_an_owner_lives_as_long_as_its_process():
    child = subprocess.Popen([sys.executable, "-c", "print(open('/proc/self/stat').read(), flush=True); input()"],
                             stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)  # fmt: skip
    started = child.stdout.readline().rpartition(")")[2].split()[19]
    name = f"{child.pid}-{started}-{owner().rpartition('-')[2]}"
    assert lives(name)
    child.communicate("\n")
    assert not lives(name)
    assert lives("somebody else's")


def test_a_folder_as_deep_as_a_program_can_make_one_goes_too(tmp_path):
    with scratch_folder("unit") as folder:
        place = os.open(folder, os.O_RDONLY)
        for _ in range(1100):
            os.mkdir("d", dir_fd=place)
            inner = os.open("d", os.O_RDONLY, dir_fd=place)
            os.close(place)
            place = inner
        os.mkdir("closed", mode=0, dir_fd=place)
        os.close(place)
    assert list(tmp_path.iterdir()) == []
