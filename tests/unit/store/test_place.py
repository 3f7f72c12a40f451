"""A folder is filled out of sight, and what a killed process left hidden goes with the next."""

import fcntl
from threading import Thread

import pytest

from mst.errors import StoreError
from mst.store.place import hidden_beside, put_in_place


def test_it_gets_its_name_in_one_step(tmp_path):
    into = tmp_path / "new" / "run"
    with hidden_beside(into) as hidden:
        (hidden / "file").write_bytes(b"x")
        assert not into.exists()
        put_in_place(hidden, into)
    assert [path.name for path in into.parent.iterdir()] == ["run"]
    assert (into / "file").read_bytes() == b"x"


def test_nothing_is_left_after_an_error(tmp_path):
    def interrupted():
        with hidden_beside(tmp_path / "run") as hidden:
            (hidden / "file").write_bytes(b"x")
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert list(tmp_path.iterdir()) == []


def test_what_nobody_holds_is_removed_and_nothing_else(tmp_path):
    left = tmp_path / ".run.fetch-00ff"
    (left / "folder").mkdir(parents=True)
    others = [tmp_path / ".run2.fetch-00ff", tmp_path / ".run.g2.fetch-00ff", tmp_path / "run.fetch-00ff"]
    for other in others:
        other.mkdir()
    with hidden_beside(tmp_path / "run") as first, hidden_beside(tmp_path / "run") as second:
        assert first != second
        assert sorted(tmp_path.iterdir()) == sorted([*others, first, second])
        put_in_place(first, tmp_path / "run")


def test_one_that_was_cleared_away_before_it_was_held_is_made_again(tmp_path, monkeypatch):
    lock, cleared = fcntl.flock, []

    def clear_away_first(handle, how):
        if not cleared:
            cleared.extend(tmp_path.iterdir())
            cleared[0].rmdir()
        lock(handle, how)

    monkeypatch.setattr(fcntl, "flock", clear_away_first)
    with hidden_beside(tmp_path / "run") as hidden:
        assert hidden.is_dir()
        assert hidden not in cleared


def test_many_at_once_take_nothing_from_each_other(tmp_path):
    ended = []

    def fill():
        for _ in range(20):
            with hidden_beside(tmp_path / "run") as hidden:
                (hidden / "file").write_bytes(b"x")
                assert (hidden / "file").exists()
                (hidden / "file").unlink()
                hidden.rmdir()
        ended.append(True)

    threads = [Thread(target=fill) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert ended == [True] * 4
    assert list(tmp_path.iterdir()) == []


def test_without_locks_nothing_is_cleared_away(tmp_path, monkeypatch):
    def refuse(*_):
        raise OSError(37, "No locks available")

    monkeypatch.setattr(fcntl, "flock", refuse)
    left = tmp_path / ".run.fetch-00ff"
    left.mkdir()
    with hidden_beside(tmp_path / "run") as hidden:
        put_in_place(hidden, tmp_path / "run")
    assert left.is_dir()


def test_a_place_that_cannot_be_made_is_named(tmp_path):
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(StoreError, match="file"), hidden_beside(tmp_path / "file" / "run"):
        pass
