"""Files of a run folder, written one by one or many at once."""

import os

import pytest

from mst.config.files import write_atomic, write_together
from mst.errors import InfrastructureError


def names(folder):
    return sorted(path.name for path in folder.rglob("*") if path.is_file())


def test_many_are_written_with_their_folders_and_replace_what_was_there(tmp_path):
    write_atomic(tmp_path / "b.json", b"old")
    write_together({str(tmp_path / "x" / "a.json"): b"a", str(tmp_path / "b.json"): b"b"})
    assert (tmp_path / "x" / "a.json").read_bytes() == b"a"
    assert (tmp_path / "b.json").read_bytes() == b"b"
    assert names(tmp_path) == ["a.json", "b.json"]


def test_none_has_its_name_before_the_disk_has_them_all(tmp_path, monkeypatch):
    seen = []
    flush = os.fsync

    def looking(handle):
        seen.append([name for name in names(tmp_path) if not name.startswith(".")])
        flush(handle)

    monkeypatch.setattr(os, "fsync", looking)
    write_together({str(tmp_path / name): b"{}" for name in "abc"})
    assert seen == [[], [], []]
    assert names(tmp_path) == ["a", "b", "c"]


@pytest.mark.parametrize("call", ["open", "fsync", "replace"])
def test_a_disk_that_refuses_one_is_told_with_its_name_and_leaves_no_halves(tmp_path, monkeypatch, call):
    real, calls = getattr(os, call), []

    def refusing(*given, **named):
        calls.append(given)
        if len(calls) == 2:
            raise OSError(28, "No space left on device")
        return real(*given, **named)

    monkeypatch.setattr(os, call, refusing)
    with pytest.raises(InfrastructureError, match=r"b\.json: cannot be written \(No space left on device\)"):
        write_together({str(tmp_path / f"{name}.json"): b"new" for name in "abc"})
    assert names(tmp_path) == (["a.json"] if call == "replace" else [])
