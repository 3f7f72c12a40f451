"""The contract of `mst.store.Store` as tests. Subclass `StoreContract` and give it a store and raw access to its data.

Raw access goes past the code under test, so that a store which writes wrong and reads wrong in the same way is caught.
"""

from __future__ import annotations

import hashlib
import threading
from abc import ABC, abstractmethod
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from mst.errors import CorruptFile, DigestMismatch, ObjectMissing, PreconditionFailed, StoreError, WrongSize
from mst.store.contract import Folder, Store

BIG_BYTES = 12 * 1024 * 1024 + 7
RACERS = 16
RACES = 2
BAD_KEYS = [
    "",
    "/a",
    "a/",
    "a//b",
    ".",
    "..",
    "a/../b",
    "./a",
    "a/.hidden",
    "a\\b",
    "a\0b",
    "a\nb",
    "ä",
    "a b",
    "x" * 901,
]
FOREIGN = ["my folder/x", ".hidden/x", "e/runs/my notes", "e/runs/.hidden", "e/runs/\u00fcber/x", "e/runs/a;b"]


class RawStore(ABC):
    """A store's data, reached by other means than the store."""

    @abstractmethod
    def read(self, key: str) -> bytes | None:
        """The object's bytes, None when there is none."""

    @abstractmethod
    def write(self, key: str, data: bytes) -> None:
        """Make or overwrite an object, whatever it does to versions."""

    @abstractmethod
    def keys(self) -> set[str]:
        """All keys there are."""


class StoreContract:
    """Every kind of store passes these. Subclasses define the fixtures `store` (empty) and `raw`."""

    @pytest.fixture
    def store(self) -> Store:
        """An empty store."""
        raise NotImplementedError

    @pytest.fixture
    def raw(self, store: Store) -> RawStore:
        """The same store's data."""
        raise NotImplementedError

    def another(self, store: Store) -> Store:
        """The same store as another process would open it. Overridden where that is possible."""
        return store

    def test_what_is_put_is_stored(self, store: Store, raw: RawStore) -> None:
        store.put("a/b.json", b"one")
        assert raw.read("a/b.json") == b"one"
        assert self.another(store).get("a/b.json") == b"one"

    def test_a_put_replaces(self, store: Store, raw: RawStore) -> None:
        store.put("a/b", b"a longer first version")
        store.put("a/b", b"two")
        assert raw.read("a/b") == b"two"
        assert raw.keys() == {"a/b"}

    def test_what_lies_there_is_read(self, store: Store, raw: RawStore, tmp_path: Path) -> None:
        raw.write("deep/er/x", b"from elsewhere")
        assert store.get("deep/er/x") == b"from elsewhere"
        got = store.get_to("deep/er/x", tmp_path / "x")
        assert (tmp_path / "x").read_bytes() == b"from elsewhere"
        assert (got.size, got.sha256) == (14, hashlib.sha256(b"from elsewhere").hexdigest())

    def test_an_empty_object_is_an_object(self, store: Store, raw: RawStore, tmp_path: Path) -> None:
        store.put("empty", b"")
        assert raw.read("empty") == b""
        assert store.get("empty") == b""
        assert store.get_to("empty", tmp_path / "x").size == 0
        found = store.head("empty")
        assert found is not None
        assert found.size == 0

    def test_every_allowed_character_survives(self, store: Store, raw: RawStore) -> None:
        key = "eval%20name/runs/%2Edot/a~1'!()=+@,-_.x%25"
        store.put(key, b"x")
        assert raw.read(key) == b"x"
        assert [info.key for info in store.list("")] == [key]

    def test_a_missing_object_is_an_error(self, store: Store, tmp_path: Path) -> None:
        store.put("a/b", b"x")
        for key in ("nope", "a", "a/b2", "a/bb/c"):
            with pytest.raises(ObjectMissing, match=key):
                store.get(key)
            with pytest.raises(ObjectMissing):
                store.get_to(key, tmp_path / "x")
            assert store.head(key) is None
        assert not (tmp_path / "x").exists()

    def test_get_refuses_more_than_allowed(self, store: Store) -> None:
        store.put("a", b"12345")
        assert store.get("a", max_bytes=5) == b"12345"
        with pytest.raises(WrongSize, match="a has 5 bytes") as caught:
            store.get("a", max_bytes=4)
        assert isinstance(caught.value, CorruptFile)

    def test_a_range_is_those_bytes(self, store: Store, raw: RawStore) -> None:
        raw.write("a/r", bytes(range(200)))
        assert store.get_range("a/r", 0, 200) == bytes(range(200))
        assert store.get_range("a/r", 5, 1) == b"\x05"
        assert self.another(store).get_range("a/r", 150, 50) == bytes(range(150, 200))
        assert store.get_range("a/r", 7, 0) == b""

    def test_a_range_beyond_the_end_is_an_error(self, store: Store) -> None:
        store.put("a", b"12345")
        for start, length in ((4, 2), (5, 1), (6, 1), (100, 10), (6, 0), (-1, 2), (0, -1)):
            with pytest.raises(StoreError) as caught:
                store.get_range("a", start, length)
            assert not caught.value.retryable
            assert not isinstance(caught.value, ObjectMissing)
            assert isinstance(caught.value, WrongSize) == (start >= 0 and length >= 0)
        with pytest.raises(ObjectMissing):
            store.get_range("b", 0, 1)

    def test_the_time_of_a_write_is_told(self, store: Store) -> None:
        before = datetime.now(UTC) - timedelta(seconds=5)
        store.put("a", b"1")
        found = store.head("a")
        assert found is not None
        assert before <= found.modified <= datetime.now(UTC) + timedelta(seconds=5)
        assert abs(next(store.list("")).modified - found.modified) < timedelta(seconds=2)

    def test_head_tells_size_and_a_version_that_changes(self, store: Store) -> None:
        versions = []
        for content in (b"1", b"2", b"3"):
            store.put("a", content)
            found = store.head("a")
            assert found is not None
            assert (found.key, found.size) == ("a", 1)
            versions.append(found.version)
        assert len(set(versions)) == 3

    @pytest.mark.parametrize("as_file", [False, True])
    def test_a_big_object_survives_whole(self, store: Store, raw: RawStore, tmp_path: Path, as_file: bool) -> None:
        pattern = hashlib.sha256(b"seed").digest()
        data = (pattern * (BIG_BYTES // len(pattern) + 1))[:BIG_BYTES]
        digest = hashlib.sha256(data).hexdigest()
        source = tmp_path / "source"
        source.write_bytes(data)
        store.put("big", source if as_file else data, sha256=digest)
        stored = raw.read("big")
        assert stored is not None
        assert hashlib.sha256(stored).hexdigest() == digest
        got = store.get_to("big", tmp_path / "copy")
        assert (got.size, got.sha256) == (BIG_BYTES, digest)
        assert hashlib.sha256((tmp_path / "copy").read_bytes()).hexdigest() == digest

    @pytest.mark.parametrize("size", [3, BIG_BYTES])
    def test_other_bytes_than_promised_are_not_stored(
        self, store: Store, raw: RawStore, tmp_path: Path, size: int
    ) -> None:
        store.put("a", b"old")
        source = tmp_path / "source"
        source.write_bytes(b"x" * size)
        for data in (source, source.read_bytes()):
            with pytest.raises(DigestMismatch):
                store.put("a", data, sha256="0" * 64)
        assert raw.read("a") == b"old"
        assert raw.keys() == {"a"}

    def test_a_source_that_is_gone_is_named(self, store: Store, raw: RawStore, tmp_path: Path) -> None:
        with pytest.raises(StoreError, match="no-such-file"):
            store.put("a", tmp_path / "no-such-file")
        assert raw.keys() == set()

    def test_a_target_that_cannot_be_written_is_named(self, store: Store, tmp_path: Path) -> None:
        store.put("a", b"x")
        with pytest.raises(StoreError, match="no-such-folder") as caught:
            store.get_to("a", tmp_path / "no-such-folder" / "x")
        assert not isinstance(caught.value, ObjectMissing)

    def test_create_refuses_what_is_there(self, store: Store, raw: RawStore) -> None:
        store.put_if_absent("a/m.json", b"first")
        with pytest.raises(PreconditionFailed, match="there already"):
            self.another(store).put_if_absent("a/m.json", b"second")
        assert raw.read("a/m.json") == b"first"
        assert raw.keys() == {"a/m.json"}

    def test_create_works_again_after_a_delete(self, store: Store, raw: RawStore) -> None:
        store.put_if_absent("a", b"first")
        store.delete("a")
        store.put_if_absent("a", b"second")
        assert raw.read("a") == b"second"

    def test_of_many_creators_one_wins(self, store: Store, raw: RawStore) -> None:
        for attempt in range(RACES):
            key = f"race/{attempt}/manifest.json"
            winners = self._race(lambda racer, key=key: self.another(store).put_if_absent(key, b"writer %d" % racer))
            assert len(winners) == 1
            assert raw.read(key) == b"writer %d" % winners[0]

    def test_of_many_replacers_one_wins(self, store: Store, raw: RawStore) -> None:
        store.put_if_absent("latest.json", b"start")
        for _ in range(RACES):
            found = store.head("latest.json")
            assert found is not None
            version = found.version
            winners = self._race(
                lambda racer, version=version: self.another(store).replace_if_match(
                    "latest.json", b"writer %d %s" % (racer, version.encode()), version
                )
            )
            assert len(winners) == 1
            assert raw.read("latest.json") == b"writer %d %s" % (winners[0], version.encode())

    def test_no_update_is_lost(self, store: Store, raw: RawStore) -> None:
        store.put_if_absent("count", b"0")

        def increment(_: int) -> None:
            mine = self.another(store)
            while True:
                found = mine.head("count")
                assert found is not None
                value = int(mine.get("count"))
                try:
                    return mine.replace_if_match("count", b"%d" % (value + 1), found.version)
                except PreconditionFailed:
                    continue

        assert len(self._race(increment, racers=8)) == 8
        assert raw.read("count") == b"8"

    def test_replace_refuses_another_version_and_nothing(self, store: Store, raw: RawStore) -> None:
        store.put_if_absent("a", b"one")
        before = store.head("a")
        assert before is not None
        store.replace_if_match("a", b"two", before.version)
        with pytest.raises(PreconditionFailed):
            store.replace_if_match("a", b"three", before.version)
        assert raw.read("a") == b"two"
        store.delete("a")
        with pytest.raises(PreconditionFailed):
            store.replace_if_match("a", b"three", before.version)
        assert raw.keys() == set()

    def test_readers_never_see_a_mixture(self, store: Store) -> None:
        contents = [bytes([65 + number]) * 200_000 for number in range(4)]
        store.put("a", contents[0])
        done = threading.Event()
        seen: set[bytes] = set()

        def read() -> None:
            mine = self.another(store)
            while not done.is_set():
                seen.add(mine.get("a"))

        with ThreadPoolExecutor(3) as pool:
            readers = [pool.submit(read) for _ in range(3)]
            try:
                for turn in range(40):
                    store.put("a", contents[turn % 4])
            finally:
                done.set()
            for reader in readers:
                reader.result()
        assert seen <= set(contents)

    def test_list_gives_what_lies_below_a_folder(self, store: Store, raw: RawStore) -> None:
        for key in ("a/1", "a/b/2", "a/b/c/3", "ab/4", "a-b/5", "z"):
            raw.write(key, key.encode())
        assert {info.key for info in store.list("")} == raw.keys()
        found = {info.key: info.size for info in store.list("a")}
        assert found == {"a/1": 3, "a/b/2": 5, "a/b/c/3": 7}
        assert [info.key for info in store.list("a/b/c")] == ["a/b/c/3"]
        assert list(store.list("nope")) == []
        assert list(store.list("z")) == []

    def test_listed_versions_are_those_of_head(self, store: Store) -> None:
        store.put("a/1", b"x")
        assert list(store.list("a")) == [store.head("a/1")]
        assert store.list_folder("a").objects == (store.head("a/1"),)

    def test_list_gives_each_of_many_once(self, store: Store) -> None:
        keys = {f"many/{number % 7}/{number}" for number in range(1100)}
        with ThreadPoolExecutor(8) as pool:
            list(pool.map(lambda key: store.put(key, b"x"), keys))
        found = [info.key for info in store.list("many")]
        assert len(found) == len(keys)
        assert set(found) == keys

    def test_list_folder_gives_one_level(self, store: Store, raw: RawStore) -> None:
        for key in ("r/m.1.json", "r/m.2.json", "r/blobs/1", "r/blobs/2", "r/x/y/z", "s/1"):
            raw.write(key, b"x")
        top, inside = store.list_folder(""), store.list_folder("r")
        assert (top.objects, set(top.folders)) == ((), {"r", "s"})
        assert {info.key for info in inside.objects} == {"r/m.1.json", "r/m.2.json"}
        assert set(inside.folders) == {"blobs", "x"}
        assert store.list_folder("nope") == type(top)((), ())

    def test_foreign_objects_are_not_listed(self, store: Store, raw: RawStore) -> None:
        """Somebody else may keep things in the same bucket: what has no key's name is none of ours."""
        for key in FOREIGN:
            raw.write(key, b"x")
        store.put("e/runs/ours", b"x")
        assert [info.key for info in store.list("")] == ["e/runs/ours"]
        assert [info.key for info in store.list("e")] == ["e/runs/ours"]
        assert store.list_folder("") == Folder((), ("e",))
        inside = store.list_folder("e/runs")
        assert ([info.key for info in inside.objects], inside.folders) == (["e/runs/ours"], ())

    def test_delete_removes_and_may_be_repeated(self, store: Store, raw: RawStore) -> None:
        store.put("a/b/c", b"x")
        store.put("a/d", b"x")
        store.delete("a/b/c")
        store.delete("a/b/c")
        store.delete("never/there")
        store.delete("a")
        assert raw.keys() == {"a/d"}
        assert [info.key for info in store.list("a")] == ["a/d"]

    def test_writing_beside_a_delete_always_succeeds(self, store: Store, raw: RawStore) -> None:
        def write_and_delete(racer: int) -> None:
            for turn in range(10):
                store.put_if_absent(f"f/{racer}/{turn}/x", b"x")
                store.delete(f"f/{racer}/{turn}/x")
            store.put(f"f/{racer}/last", b"x")

        assert len(self._race(write_and_delete, racers=8)) == 8
        assert raw.keys() == {f"f/{racer}/last" for racer in range(8)}

    @pytest.mark.parametrize("key", BAD_KEYS)
    def test_a_bad_key_is_refused(self, store: Store, raw: RawStore, tmp_path: Path, key: str) -> None:
        for call in (
            lambda: store.put(key, b"x"),
            lambda: store.put_if_absent(key, b"x"),
            lambda: store.replace_if_match(key, b"x", "1"),
            lambda: store.get(key),
            lambda: store.get_to(key, tmp_path / "x"),
            lambda: store.get_range(key, 0, 1),
            lambda: store.head(key),
            lambda: store.delete(key),
        ):
            with pytest.raises(StoreError, match="not a key"):
                call()
        if key:
            with pytest.raises(StoreError, match="not a key"):
                list(store.list(key))
            with pytest.raises(StoreError, match="not a key"):
                store.list_folder(key)
        assert raw.keys() == set()

    def _race(self, action: object, *, racers: int = RACERS) -> list[int]:
        """Run the action in so many threads that start together; who came through without `PreconditionFailed`."""
        assert callable(action)
        start = threading.Barrier(racers)

        def run(racer: int) -> bool:
            start.wait()
            try:
                action(racer)
            except PreconditionFailed:
                return False
            return True

        with ThreadPoolExecutor(racers) as pool:
            return [racer for racer, won in enumerate(pool.map(run, range(racers))) if won]
