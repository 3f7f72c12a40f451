"""What only the file store has: durability, permissions, foreign files."""

import errno
import fcntl
import hashlib
import os
import stat
from pathlib import Path

import pytest

from mst.errors import ObjectMissing, StoreDenied, StoreError, StoreUnavailable
from mst.store import file as module
from mst.store.contract import Folder
from mst.store.file import FileStore


@pytest.fixture
def store(tmp_path):
    return FileStore(tmp_path / "store")


def test_a_commit_is_flushed_before_it_has_a_name_and_its_folder_after(store, monkeypatch):
    steps = []
    for name in ("fsync", "link", "replace"):
        real = getattr(os, name)

        def record(*args, _name=name, _real=real, **more):
            what = _name
            if _name == "fsync":
                what = "flush folder" if stat.S_ISDIR(os.fstat(args[0]).st_mode) else "flush file"
            steps.append(what)
            return _real(*args, **more)

        monkeypatch.setattr(os, name, record)
    store.put_if_absent("a", b"x")
    assert steps[-3:] == ["flush file", "link", "flush folder"]
    steps.clear()
    store.put("a", b"y")
    assert steps == ["flush file", "replace", "flush folder"]
    steps.clear()
    store.replace_if_match("a", b"z", store.head("a").version)
    assert steps[0] == "flush file"
    assert steps[-2:] == ["replace", "flush folder"]


def test_new_folders_are_flushed_into_their_parents(store, monkeypatch, tmp_path):
    flushed = []
    real = module._flush_folder
    monkeypatch.setattr(module, "_flush_folder", lambda folder: (flushed.append(folder), real(folder)))
    store.put("a/b/c", b"x")
    root = tmp_path / "store"
    assert flushed == [tmp_path, root, root / "a", root / "a/b"]


def test_files_get_the_users_mode(store, tmp_path):
    old = os.umask(0o027)
    try:
        store.put("a", b"x")
    finally:
        os.umask(old)
    assert stat.S_IMODE((tmp_path / "store/a").stat().st_mode) == 0o640


def test_the_stores_own_and_foreign_files_are_not_listed(store, tmp_path):
    store.put("a/b", b"x")
    (tmp_path / "store/a/.tmp-left-by-a-crash").write_bytes(b"half")
    (tmp_path / "store/a/has space").write_bytes(b"foreign")
    (tmp_path / "store/empty").mkdir()
    assert [info.key for info in store.list("")] == ["a/b"]
    assert store.list_folder("").folders == ("a",)


def test_versions_differ_even_within_a_tick_of_the_clock(store):
    versions = set()
    for number in range(300):
        store.put("a", b"%03d" % number)
        versions.add(store.head("a").version)
        store.delete("a")
    assert len(versions) == 300


def test_a_lock_that_is_never_released_ends_the_wait(store, tmp_path, monkeypatch):
    store.put_if_absent("a", b"x")
    version = store.head("a").version
    locks = tmp_path / "store/.locks"
    locks.mkdir()
    with (locks / hashlib.sha256(b"a").hexdigest()).open("w") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        monkeypatch.setattr(module, "LOCK_WAIT_S", 0.05)
        with pytest.raises(StoreUnavailable, match="locked by another process"):
            store.replace_if_match("a", b"y", version)
    assert store.get("a") == b"x"
    store.replace_if_match("a", b"y", version)
    assert store.get("a") == b"y"
    assert [entry.name for entry in (tmp_path / "store").iterdir() if entry.name.startswith(".tmp")] == []


def test_a_root_that_is_a_file_is_one_clear_line(tmp_path):
    (tmp_path / "taken").write_text("x")
    with pytest.raises(StoreError, match=f"cannot write a in file:{tmp_path}/taken.*taken by a file") as caught:
        FileStore(tmp_path / "taken").put("a", b"x")
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("name", ["ELOOP", "EIO", "ENOTCONN", "EHOSTDOWN", "ENODEV", "ESTALE"])
def test_what_a_share_says_that_is_away_for_a_while_may_be_tried_again(store, monkeypatch, name):
    store.put("a/b", b"x")

    def away(*_given, **_options):
        raise OSError(getattr(errno, name), os.strerror(getattr(errno, name)))

    with monkeypatch.context() as patch:
        for target in ("open", "stat", "unlink"):
            patch.setattr(Path, target, away)
        patch.setattr(os, "scandir", away)
        for ask in ASKED:
            with pytest.raises(StoreUnavailable):
                ask(store)
    assert store.get("a/b") == b"x"


ASKED = [
    lambda store: store.get("a/b"),
    lambda store: store.head("a/b"),
    lambda store: store.delete("a/b"),
    lambda store: store.list_folder("a"),
    lambda store: list(store.list("")),
]
"""Everything that finds nothing where nothing is."""


def writes(store):
    store.put("a/c", b"x")


@pytest.mark.parametrize("seen", [writes, lambda store: store.get("a/b"), lambda store: store.head("no")])
def test_a_store_whose_folder_is_gone_is_away_and_not_empty(store, tmp_path, seen):
    store.put("a/b", b"x")
    other = FileStore(tmp_path / "store")
    seen(other)
    (tmp_path / "store").rename(tmp_path / "unmounted")
    for ask in (*ASKED, writes):
        with pytest.raises(StoreUnavailable, match=r"its folder is gone: is the disk or share mounted\?"):
            ask(other)
    assert not (tmp_path / "store").exists(), "nothing is written where the share should be"
    (tmp_path / "unmounted").rename(tmp_path / "store")
    assert other.get("a/b") == b"x"


def test_an_empty_folder_of_another_disk_is_a_mount_that_is_gone(store, tmp_path, monkeypatch):
    store.put("a/b", b"x")
    (tmp_path / "store").rename(tmp_path / "unmounted")
    (tmp_path / "store").mkdir()
    real = module._device
    monkeypatch.setattr(module, "_device", lambda folder: real(folder) + 1)
    for ask in (*ASKED, writes):
        with pytest.raises(StoreUnavailable, match="mounted"):
            ask(store)
    assert list((tmp_path / "store").iterdir()) == []
    (tmp_path / "store").rmdir()
    (tmp_path / "unmounted").rename(tmp_path / "store")
    assert store.head("no") is None, "mounted again it may have another number"
    store.put("a/c", b"x")


def test_a_store_that_nothing_was_written_to_yet_is_empty(store):
    assert store.head("a") is None
    assert store.list_folder("") == Folder((), ())
    with pytest.raises(ObjectMissing):
        store.get("a")


@pytest.mark.parametrize("number", [errno.EPERM, errno.EOPNOTSUPP])
def test_a_file_system_without_hard_links_is_said_and_keeps_nothing(store, tmp_path, monkeypatch, number):
    def no_link(*_paths):
        raise OSError(number, "no")

    monkeypatch.setattr(os, "link", no_link)
    with pytest.raises(StoreError, match="has no hard links") as caught:
        store.put_if_absent("a/m.json", b"x")
    assert not isinstance(caught.value, StoreDenied)
    assert [path for path in (tmp_path / "store").rglob("*") if path.is_file()] == []
