"""Units reach the store singly when slow and together when fast, and whoever takes over finds every stored one."""

import threading
import time
from datetime import UTC, datetime

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mst.errors import CorruptFile, StoreError
from mst.model.manifest import ShardManifest
from mst.store.layout import RunKeys
from mst.store.memory import MemoryStore
from mst.store.sink import AWAY_MAX, UnitFiles, UnitSink
from mst.store.units import StoredUnits, fetch_shard

from .conftest import RUN, sha

SHARD = RunKeys("e", RUN).dispatch("d1").shard(3)


class Watched(MemoryStore):
    """Remembers when what was written, and can be made to wait or to fail."""

    def __init__(self):
        super().__init__("units")
        self.puts, self.gate, self.broken = [], threading.Event(), None
        self.gate.set()

    def put(self, key, data, *, sha256=None):
        self.gate.wait(10)
        if self.broken is not None:
            raise self.broken
        super().put(key, data, sha256=sha256)
        self.puts.append((time.monotonic(), key))


@pytest.fixture
def watched():
    return Watched()


def unit(folder, number, *, size=20, artifacts=()):
    own = folder / f"unit-{number}.json"
    own.write_bytes(f"{number}:".encode().ljust(size, b"."))
    beside = []
    for content in artifacts:
        path = folder / sha(content)
        if not path.exists():
            path.write_bytes(content)
        beside.append(path)
    return UnitFiles(str(number), own, beside)


def manifest_of(sink, **more):
    facts = {"eval_name": "e", "run_id": RUN, "dispatch": "d1", "shard": 3, "bundle_digest": "0" * 64, "author": "1-a"}
    created = datetime(2026, 1, 2, tzinfo=UTC)
    lists = {"files": list(sink.files.values()), "packs": sink.packs}
    return ShardManifest(**facts, created_at=created, complete=True, **(lists | more))


def wait_for(condition, seconds=10):
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline
        threading.Event().wait(0.005)


def test_a_unit_alone_is_an_object_at_once(watched, tmp_path):
    stored = []
    with UnitSink(watched, SHARD, "1-a", stored=stored.extend, spacing_s=30) as sink:
        sink.take(unit(tmp_path, 1))
        wait_for(lambda: stored == ["1"])
    assert [key for _, key in watched.puts] == [SHARD.unit("1-a", "unit-1.json")]
    assert sink.packs == []


def test_a_unit_is_stored_within_the_spacing(watched, tmp_path):
    stored = []
    with UnitSink(watched, SHARD, "1-a", stored=stored.extend, spacing_s=0.2) as sink:
        for number in range(3):
            before = time.monotonic()
            sink.take(unit(tmp_path, number))
            wait_for(lambda number=number: str(number) in stored)
            assert time.monotonic() - before < 2
    assert len(watched.puts) == 3


def test_units_that_end_together_go_as_one_pack(watched, tmp_path):
    stored = []
    with UnitSink(watched, SHARD, "1-a", stored=stored.extend, spacing_s=30) as sink:
        sink.take(unit(tmp_path, 0))
        wait_for(lambda: stored == ["0"])
        for number in range(1, 501):
            sink.take(unit(tmp_path, number))
    assert sorted(map(int, stored)) == list(range(501))
    assert len(watched.puts) == 3
    assert [pack.files for pack in sink.packs] == [500]


def test_a_full_pack_does_not_wait(watched, tmp_path):
    stored = []
    with UnitSink(watched, SHARD, "1-a", stored=stored.extend, spacing_s=3600) as sink:
        sink.take(unit(tmp_path, 0))
        wait_for(lambda: stored)
        for number in range(1, 6):
            sink.take(unit(tmp_path, number, size=900_000))
        wait_for(lambda: len(stored) >= 4)


def test_what_lies_beside_a_unit_is_stored_before_it(watched, tmp_path):
    large = b"L" * 1_200_000
    with UnitSink(watched, SHARD, "1-a", stored=lambda _: None, spacing_s=0) as sink:
        sink.take(unit(tmp_path, 1, artifacts=[b"small", large]))
    keys = [key.rpartition("/")[2] for _, key in watched.puts]
    assert keys == [sha(large), sha(b"small"), "unit-1.json"]


def test_a_shared_file_is_sent_once_and_first(watched, tmp_path):
    large, stored = b"L" * 1_200_000, []
    watched.gate.clear()
    with UnitSink(watched, SHARD, "1-a", stored=stored.extend, spacing_s=0) as sink:
        sink.take(unit(tmp_path, 1, artifacts=[large]))
        wait_for(lambda: sink._open)
        sink.take(unit(tmp_path, 2, artifacts=[large]))
        wait_for(lambda: len(sink._open) == 2)
        assert stored == []
        watched.gate.set()
    keys = [key.rpartition("/")[2] for _, key in watched.puts]
    assert keys.count(sha(large)) == 1
    assert keys[0] == sha(large)
    assert sorted(stored) == ["1", "2"]


def test_a_store_that_fails_ends_it_and_tells_of_nothing(watched, tmp_path):
    stored = []
    watched.broken = StoreError("no")
    sink = UnitSink(watched, SHARD, "1-a", stored=stored.extend)
    with sink:
        sink.take(unit(tmp_path, 1))
        wait_for(lambda: sink.error is not None)
        with pytest.raises(StoreError, match="no"):
            sink.take(unit(tmp_path, 2))
    assert stored == []


def test_an_abandoned_shard_sends_nothing_more(watched, tmp_path):
    stored = []
    with UnitSink(watched, SHARD, "1-a", stored=stored.extend, spacing_s=3600) as sink:
        sink.take(unit(tmp_path, 0))
        wait_for(lambda: stored)
        sink.take(unit(tmp_path, 1))
        sink.abandon()
    assert stored == ["0"]


def test_at_the_end_nobody_waits_for_room(watched, tmp_path, monkeypatch):
    monkeypatch.setattr("mst.store.sink.AWAY_MAX", 1)
    monkeypatch.setattr("mst.store.sink.STALLED_S", -1.0)
    stored, ending = [], threading.Event()
    watched.gate.clear()
    with UnitSink(watched, SHARD, "1-a", stored=stored.extend, ending=ending.is_set) as sink:
        sink.take(unit(tmp_path, 0))
        late = threading.Thread(target=sink.take, args=[unit(tmp_path, 1)])
        late.start()
        wait_for(lambda: sink.is_behind)
        assert late.is_alive()
        ending.set()
        late.join(10)
        assert not late.is_alive()
        watched.gate.set()
    assert sorted(stored) == ["0", "1"]


def test_who_must_leave_does_not_wait_for_a_store_that_is_away(watched, tmp_path, monkeypatch):
    monkeypatch.setattr("mst.store.sink.LEAVING_S", 0.0)
    stored = []
    watched.gate.clear()
    with UnitSink(watched, SHARD, "1-a", stored=stored.extend, leaving=lambda: True) as sink:
        sink.take(unit(tmp_path, 0))
    assert "did not take all units before the end" in str(sink.error)
    assert stored == []
    watched.gate.set()


def test_who_must_leave_still_sends_what_the_store_takes(watched, tmp_path):
    stored = []
    with UnitSink(watched, SHARD, "1-a", stored=stored.extend, spacing_s=3600, leaving=lambda: True) as sink:
        for number in range(3):
            sink.take(unit(tmp_path, number))
    assert sink.error is None
    assert sorted(stored) == ["0", "1", "2"]


def send(store, folder, count, attempt="1-a", **more):
    folder.mkdir(exist_ok=True)
    with UnitSink(store, SHARD, attempt, stored=lambda _: None, spacing_s=30) as sink:
        for number in range(count):
            sink.take(unit(folder, number, **more))
    return sink


def test_a_takeover_finds_and_reads_all_of_them(watched, tmp_path):
    send(watched, tmp_path, 40, artifacts=[b"shared"])
    found = StoredUnits(watched, SHARD, "1-a")
    assert found.names == {sha(b"shared"), *(f"unit-{number}.json" for number in range(40))}
    got = dict(found.read([*(f"unit-{number}.json" for number in range(40)), "unit-40.json"]))
    assert got == {f"unit-{number}.json": (tmp_path / f"unit-{number}.json").read_bytes() for number in range(40)}
    assert found.holds(sha(b"shared"), 6)
    assert not found.holds(sha(b"shared"), 7)


def test_a_takeover_reads_a_pack_with_one_request(watched, tmp_path):
    sink = send(watched, tmp_path, 300)
    found, ranges = StoredUnits(watched, SHARD, "1-a"), []
    watched.get_range = lambda key, start, length: (
        ranges.append(key) or MemoryStore.get_range(watched, key, start, length)
    )
    assert len(list(found.read(found.names))) == 300
    assert sorted(ranges) == sorted(pack.object for pack in sink.packs)


def test_a_wrong_byte_costs_one_unit_of_its_pack(watched, tmp_path):
    sink = send(watched, tmp_path, 40)
    key = sink.packs[0].object
    data = bytearray(watched.get(key))
    data[30] ^= 1
    watched.put(key, bytes(data))
    found = StoredUnits(watched, SHARD, "1-a")
    assert len(list(found.read(found.names))) == 39
    faults = fetch_shard(watched, manifest_of(sink), tmp_path / "got")
    assert len(faults) == 1
    assert key in faults[0]
    assert "units/unit-" in faults[0]
    assert len(list(tmp_path.glob("got/units/*"))) == 39


@pytest.mark.parametrize("damage", ["index", "pack"])
def test_units_of_a_pack_that_was_never_finished_are_passed_over(watched, tmp_path, damage):
    sink = send(watched, tmp_path, 40)
    whole = StoredUnits(watched, SHARD, "1-a").names
    pack = sink.packs[0]
    watched.delete(pack.index_object if damage == "index" else pack.object)
    left = StoredUnits(watched, SHARD, "1-a").names
    assert left < whole
    assert len(whole - left) == pack.files


def test_a_cut_index_is_passed_over(watched, tmp_path):
    sink = send(watched, tmp_path, 40)
    key = sink.packs[0].index_object
    watched.put(key, watched.get(key)[:-10])
    assert len(StoredUnits(watched, SHARD, "1-a").names) == 40 - sink.packs[0].files


def test_a_shard_of_several_attempts_comes_back(watched, tmp_path):
    send(watched, tmp_path / "one", 30)
    first = StoredUnits(watched, SHARD, "1-a")
    second = send(watched, tmp_path / "two", 3, attempt="2-b", size=50)
    mine = {path.rpartition("/")[2] for path in second.files} | {
        f"unit-{number}.json" for number in range(3) if f"units/unit-{number}.json" not in second.files
    }
    theirs = first.names - mine
    assert len(dict(first.read(theirs))) == len(theirs)
    singles, packs = first.listed(theirs)
    assert {file.path for file in singles} | packed_paths(watched, packs) == {f"units/{name}" for name in theirs}
    manifest = manifest_of(second, files=[*second.files.values(), *singles], packs=[*second.packs, *packs])
    assert fetch_shard(watched, manifest, tmp_path / "got") == []
    got = {path.name: path.stat().st_size for path in (tmp_path / "got/units").iterdir()}
    assert got == {f"unit-{number}.json": 50 if number < 3 else 20 for number in range(30)}


def packed_paths(store, packs):
    from mst.store.pack import read_index

    return {
        entry.path
        for pack in packs
        for entry in read_index(
            store.get(pack.index_object), "x", pack=pack.sha256, pack_size=pack.size, files=pack.files
        )
    }


@pytest.mark.parametrize("what", ["object", "index_object"])
def test_an_object_that_is_gone_is_named_and_the_rest_comes(watched, tmp_path, what):
    sink = send(watched, tmp_path, 40)
    gone = getattr(sink.packs[0], what)
    watched.delete(gone)
    [fault] = fetch_shard(watched, manifest_of(sink), tmp_path / "got")
    assert gone in fault
    assert len(list(tmp_path.glob("got/units/*"))) == 40 - sink.packs[0].files


def test_a_fetched_shard_keeps_what_is_there(watched, tmp_path):
    sink = send(watched, tmp_path, 10)
    target = tmp_path / "got/units/unit-7.json"
    target.parent.mkdir(parents=True)
    target.write_bytes(b"x" * 20)
    fetch_shard(watched, manifest_of(sink), tmp_path / "got")
    assert target.read_bytes() == b"x" * 20
    assert len(list(target.parent.iterdir())) == 10


@settings(deadline=None, max_examples=25)
@given(sizes=st.lists(st.sampled_from([1, 300, 1_100_000]), max_size=12), shared=st.lists(st.booleans(), min_size=12))
def test_every_unit_comes_back(tmp_path_factory, sizes, shared):
    folder, store, stored = tmp_path_factory.mktemp("units"), Watched(), []
    with UnitSink(store, SHARD, "1-a", stored=stored.extend, spacing_s=0.001) as sink:
        for number, size in enumerate(sizes):
            beside = [b"s" * 1_100_000, b"both"] if shared[number] else []
            sink.take(unit(folder, number, size=size, artifacts=beside))
    assert sorted(map(int, stored)) == list(range(len(sizes)))
    fetch_shard(store, manifest_of(sink), folder / "got")
    got = {path.name: sha(path.read_bytes()) for path in (folder / "got").rglob("*") if path.is_file()}
    assert got == {path.name: sha(path.read_bytes()) for path in folder.iterdir() if path.is_file()}
    found = StoredUnits(store, SHARD, "1-a")
    assert found.names == set(got)
    assert {name: sha(data) for name, data in found.read(found.names)} == got
    assert sink.paths == {f"{'units' if name.endswith('.json') else 'artifacts'}/{name}" for name in got}


def test_a_unit_that_cannot_be_read_is_an_error(watched, tmp_path):
    one = unit(tmp_path, 1)
    one.own.unlink()
    sink = UnitSink(watched, SHARD, "1-a", stored=lambda _: None)
    with sink, pytest.raises(StoreError, match="unit-1"):
        sink.take(one)
    assert not isinstance(sink.error, CorruptFile)


def test_what_goes_wrong_in_a_sending_thread_ends_it_with_the_reason(watched, tmp_path):
    def note(tokens):
        raise RuntimeError("no place to note it")

    sink = UnitSink(watched, SHARD, "1-a", stored=note)
    with sink:
        sink.take(unit(tmp_path, 1))
        wait_for(lambda: sink.error is not None)
    assert "no place to note it" in str(sink.error)


def test_little_is_taken_while_the_store_is_away(watched, tmp_path, monkeypatch):
    monkeypatch.setattr("mst.store.sink.STALLED_S", 0.01)
    watched.gate.clear()
    taken, stored = [], []
    with UnitSink(watched, SHARD, "1-a", stored=stored.extend, spacing_s=0) as sink:
        sink.take(unit(tmp_path, 0))
        wait_for(lambda: time.monotonic() - sink._moved_at > 0.02)

        def take_more():
            for number in range(1, 200):
                sink.take(unit(tmp_path, number))
                taken.append(number)

        thread = threading.Thread(target=take_more, daemon=True)
        thread.start()
        wait_for(lambda: len(taken) >= AWAY_MAX // 2)
        assert sink.is_behind
        wait_for(lambda: len(taken) == AWAY_MAX - 1)
        assert stored == []
        watched.gate.set()
        thread.join(30)
        assert not sink.is_behind
    assert sorted(map(int, stored)) == list(range(200))


def test_few_bytes_are_taken_from_a_store_that_does_not_answer(watched, tmp_path, monkeypatch):
    monkeypatch.setattr("mst.store.sink.WAITING_BYTES", 100_000)
    watched.gate.clear()
    waited, stored = [], []
    with UnitSink(watched, SHARD, "1-a", stored=stored.extend, spacing_s=0) as sink:

        def take_all():
            for number in range(100):
                sink.take(unit(tmp_path, number, size=20_000))
                waited.append(sink._waiting_bytes)

        thread = threading.Thread(target=take_all, daemon=True)
        thread.start()
        wait_for(lambda: sink.is_behind)
        assert len(waited) < 100
        watched.gate.set()
        thread.join(30)
    assert sorted(map(int, stored)) == list(range(100))
    assert max(waited) <= 120_000
