"""Small files travel in packs: written, read, used again, and whatever is wrong with one is named."""

import dataclasses
import json
import stat
import tracemalloc
from contextlib import closing
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import TypeAdapter, ValidationError

from mst.errors import CorruptFile, DigestMismatch, FormatError, StoreError, UsageError
from mst.model.manifest import PackEntry
from mst.store.age import TRUSTED_AGE
from mst.store.fetch import fetch_run, fetch_source
from mst.store.find import read_run
from mst.store.layout import RunKeys
from mst.store.listing import Listing, read_pack_index
from mst.store.pack import GAP_BYTES, Packer, check_path, read_index, windows
from mst.store.publish import push_run
from mst.store.unpack import Unpacker, read_file, read_pack

from .conftest import RUN, make_run, sha, tree

KEYS = RunKeys("e", RUN)


@pytest.fixture
def push(store, facts):
    return lambda run_dir, run_id=RUN, **more: push_run(
        store, run_dir, **({"eval_name": "e", "run_id": run_id, "facts": facts} | more)
    )


@pytest.fixture
def sent(store):
    """Keys of everything that is written from now on."""
    keys, put, create = [], store.put, store.put_if_absent
    store.put = lambda key, data, **more: (keys.append(key), put(key, data, **more))
    store.put_if_absent = lambda key, data: (keys.append(key), create(key, data))
    return keys


@pytest.fixture
def small_packs(monkeypatch):
    monkeypatch.setattr("mst.store.sending.Packer", lambda: Packer(pack_bytes=100, later_bytes=100))


def entries(store, manifest):
    listing = Listing.of(manifest)
    return [entry for pack in manifest.packs for entry in read_pack_index(store, listing, pack)]


def numbered(count, text="content"):
    return {f"t/{number:03}.json": f"{text} {number:03}".encode() for number in range(count)}


def test_a_run_of_small_files_is_a_pack_and_an_index(store, push, run_dir, sent):
    manifest = push(run_dir)
    (pack,) = manifest.packs
    assert manifest.files == []
    assert (pack.files, pack.first, pack.last) == (6, "artifacts/a/case/0/.gitignore", "transcripts/b/case/0.json")
    assert [key for key in sent if not key.endswith("/clock")] == [
        KEYS.pack(pack.sha256),
        KEYS.index(pack.index_sha256),
        KEYS.manifest(1),
    ]
    data = store.get(KEYS.pack(pack.sha256))
    for entry in entries(store, manifest):
        content = (run_dir / entry.path).read_bytes()
        assert data[entry.offset : entry.offset + entry.length] == content
        assert (entry.size, entry.sha256) == (len(content), sha(content))


def test_the_same_content_is_kept_once(store, push, tmp_path):
    manifest = push(make_run(tmp_path / "run", {f"{name}": b"the same" for name in "abcde"}))
    assert (manifest.packs[0].size, manifest.packs[0].files) == (8, 5)


def test_an_index_is_what_the_format_page_says(store, push, tmp_path):
    run = make_run(tmp_path / "run", {"b": b"bb", "a/x": b"", "c.sh": b"#!"})
    (run / "c.sh").chmod(0o755)
    (pack,) = push(run).packs
    lines = store.get(KEYS.index(pack.index_sha256)).decode().split("\n")
    assert lines.pop() == ""
    assert [json.loads(line) for line in lines] == [
        {"format": "mst.pack/v1", "kind": "packIndex", "pack": pack.sha256, "packSize": 4, "files": 3},
        {"path": "a/x", "size": 0, "sha256": sha(b""), "offset": 0, "length": 0},
        {"path": "b", "size": 2, "sha256": sha(b"bb"), "offset": 0, "length": 2},
        {"path": "c.sh", "size": 2, "sha256": sha(b"#!"), "offset": 2, "length": 2, "executable": True},
    ]


def test_large_and_small_files_come_back(store, push, run_dir, tmp_path):
    (run_dir / "artifacts/big").write_bytes(b"x" * 3_000_000)
    manifest = push(run_dir)
    assert [file.path for file in manifest.files] == ["artifacts/big"]
    fetch_run(store, eval_name="e", run_id=RUN, into=tmp_path / "got")
    assert tree(tmp_path / "got") == {name: data for name, data in tree(run_dir).items() if name != ".lock"}
    assert (tmp_path / "got/artifacts/a/case/0/tool.sh").stat().st_mode & stat.S_IXUSR
    assert not (tmp_path / "got/run.json").stat().st_mode & stat.S_IXUSR


def test_many_packs_come_back(store, push, small_packs, tmp_path):
    run = make_run(tmp_path / "run", numbered(100))
    manifest = push(run)
    assert len(manifest.packs) == 12
    assert all(pack.size <= 100 for pack in manifest.packs)
    fetch_run(store, eval_name="e", run_id=RUN, into=tmp_path / "got")
    assert tree(tmp_path / "got") == tree(run)
    assert push(run) == manifest


def test_a_file_as_large_as_a_pack_has_its_own(store, push, small_packs, tmp_path):
    run = make_run(tmp_path / "run", {"a": b"1", "b": b"x" * 500, "c": b"2"})
    assert [pack.size for pack in push(run).packs] == [1, 500, 1]


def test_some_of_a_run_is_fetched(store, push, small_packs, tmp_path):
    push(make_run(tmp_path / "run", numbered(50)))
    fetch_run(store, eval_name="e", run_id=RUN, into=tmp_path / "got", wanted=lambda path: path.endswith("7.json"))
    assert sorted(tree(tmp_path / "got")) == [f"t/0{tens}7.json" for tens in range(5)]


def test_one_file_costs_an_index_and_a_range(store, push, small_packs, tmp_path):
    manifest = push(make_run(tmp_path / "run", numbered(100)))
    asked, get, get_range = [], store.get, store.get_range
    store.get = lambda key, **more: (asked.append(key), get(key, **more))[1]
    store.get_range = lambda key, start, length: (asked.append((start, length)), get_range(key, start, length))[1]
    assert read_file(store, Listing.of(manifest), "t/050.json") == b"content 050"
    assert len(asked) == 2
    assert asked[1][1] == len(b"content 050")
    assert read_file(store, Listing.of(manifest), "t/nope") is None


def test_a_changed_run_sends_only_what_changed(store, push, small_packs, tmp_path, sent):
    run = make_run(tmp_path / "run", numbered(60))
    first = push(run)
    del sent[:]
    make_run(run, {"t/030.json": b"changed", "t/zzz.json": b"new"})
    (run / "t/059.json").unlink()
    second = push(run)
    new = {pack.sha256 for pack in second.packs} - {pack.sha256 for pack in first.packs}
    assert len(new) == 1
    assert len([key for key in sent if "/packs/" in key]) == 1
    # The pack that lost a file, the last one, and the new one have new indexes.
    assert len([key for key in sent if "/indexes/" in key]) == 3
    fetch_run(store, eval_name="e", run_id=RUN, into=tmp_path / "got")
    assert tree(tmp_path / "got") == tree(run)
    assert push(run) == second
    read = [entry.path for entry in entries(store, second)]
    assert sorted(read) == sorted(tree(run))


def test_a_pack_that_nothing_uses_is_listed_no_more(store, push, small_packs, tmp_path):
    run = make_run(tmp_path / "run", numbered(20))
    first = push(run)
    for number in range(9):
        (run / f"t/{number:03}.json").unlink()
    second = push(run)
    assert {pack.sha256 for pack in second.packs} == {pack.sha256 for pack in first.packs[1:]}


def test_the_same_content_in_two_packs_makes_no_new_generation(store, push, small_packs, tmp_path):
    run = make_run(tmp_path / "run", {f"{number:02}": b"x" * 40 if number % 5 else b"y" * 40 for number in range(20)})
    first = push(run)
    assert len(first.packs) >= 1
    assert push(run) == first


def test_a_moved_file_is_not_sent_again(store, push, tmp_path, sent):
    run = make_run(tmp_path / "run", numbered(5))
    push(run)
    del sent[:]
    (run / "t/001.json").rename(run / "moved.json")
    push(run)
    assert [key for key in sent if "/packs/" in key] == []
    fetch_run(store, eval_name="e", run_id=RUN, into=tmp_path / "got")
    assert tree(tmp_path / "got") == tree(run)


def test_a_regrade_uses_its_sources_packs(store, push, small_packs, tmp_path, sent):
    source_dir = make_run(tmp_path / "run", numbered(40))
    push(source_dir)
    source = read_run(store, KEYS)
    del sent[:]
    regrade_id = f"{RUN}.g2"
    regrade = make_run(tmp_path / "g2", {"copy/3.json": b"content 003", "own": b"own"})
    manifest = push(regrade, regrade_id, source=source)
    own = RunKeys("e", regrade_id)
    assert len([key for key in sent if key.startswith(own.folder) and "/packs/" in key]) == 1
    used, new = manifest.packs
    assert used.object == KEYS.pack(source.manifest.packs[0].sha256)
    assert (used.index_object, new.object, new.index_object) == (None, None, None)
    assert [pack.object for pack in manifest.source.packs] == [KEYS.pack(one.sha256) for one in source.manifest.packs]
    fetch_run(store, eval_name="e", run_id=regrade_id, into=tmp_path / "out/g2")
    fetch_source(store, manifest, into=tmp_path / "out/source")
    assert tree(tmp_path / "out/g2") == tree(regrade)
    assert tree(tmp_path / "out/source") == tree(source_dir)
    assert push(regrade, regrade_id, source=source) == manifest
    # A regrade of the regrade, whose copy is the source's still.
    third = push(regrade, f"{RUN}.g3", source=read_run(store, own))
    assert [pack.object for pack in third.packs] == [used.object, own.pack(new.sha256)]
    assert third.packs[1].index_object == own.index(new.index_sha256)
    fetch_run(store, eval_name="e", run_id=f"{RUN}.g3", into=tmp_path / "out/g3")
    assert tree(tmp_path / "out/g3") == tree(regrade)


def test_leftovers_of_an_interrupted_push_are_used_while_they_are_young(store, push, small_packs, tmp_path, sent):
    run = make_run(tmp_path / "run", numbered(40))
    manifest = push(run)
    store.delete(KEYS.manifest(1))
    del sent[:]
    assert push(run) == manifest
    assert [key for key in sent if "/packs/" in key or "/indexes/" in key] == []
    store.delete(KEYS.manifest(1))
    inner = store._inner
    for key, (data, number, modified) in inner._objects.items():
        inner._objects[key] = (data, number, modified - TRUSTED_AGE)
    del sent[:]
    assert push(run) == manifest
    assert len([key for key in sent if "/packs/" in key]) == len(manifest.packs)


def test_what_is_collected_while_it_is_pushed_is_pushed_again(store, push, small_packs, tmp_path, caplog):
    run = make_run(tmp_path / "run", numbered(40))
    victim = KEYS.pack(push(run).packs[2].sha256)
    store.delete(KEYS.manifest(1))
    inner = store._inner
    create = inner.put_if_absent

    def collect(key, data):
        inner.delete(victim)
        del inner.put_if_absent
        create(key, data)

    inner.put_if_absent = collect
    manifest = push(run)
    assert "pushing again" in caplog.text
    assert store.head(victim) is not None
    fetch_run(store, eval_name="e", run_id=RUN, into=tmp_path / "got")
    assert tree(tmp_path / "got") == tree(run)
    assert manifest == read_run(store, KEYS).manifest


@pytest.mark.parametrize("what", ["no pack", "no index", "wrong index", "wrong pack, repaired"])
def test_a_push_mends_what_was_lost(store, push, small_packs, tmp_path, what):
    run = make_run(tmp_path / "run", numbered(40))
    pack = push(run).packs[1]
    key = KEYS.index(pack.index_sha256) if what.endswith("index") else KEYS.pack(pack.sha256)
    if what.startswith("no"):
        store.delete(key)
    else:
        store.put(key, store.get(key)[:-2] + b"##")
    # A push does not read packs: `mst store verify` does.
    push(run, repair=what.endswith("repaired"))
    fetch_run(store, eval_name="e", run_id=RUN, into=tmp_path / "got")
    assert tree(tmp_path / "got") == tree(run)


def broken_fetch(store, tmp_path, error, match):
    with pytest.raises(error, match=match) as caught:
        fetch_run(store, eval_name="e", run_id=RUN, into=tmp_path / "out/run")
    assert list((tmp_path / "out").iterdir()) == []
    assert "\n" not in str(caught.value)
    return str(caught.value)


def test_large_and_small_files_are_written_side_by_side(small_packs, store, push, tmp_path):
    files = numbered(40) | {f"large/{number}/file": b"%d" % number * 40_000 for number in range(8)} | {"top": b"t"}
    run = make_run(tmp_path / "run", files)
    push(run)
    fetch_run(store, eval_name="e", run_id=RUN, into=tmp_path / "got", workers=8)
    assert tree(tmp_path / "got") == tree(run)


def test_a_folder_that_is_removed_under_a_fetch_ends_it(store, push, tmp_path):
    push(make_run(tmp_path / "run", numbered(5)))
    get_range = store.get_range

    def remove(key, start, length):
        for unfinished in (tmp_path / "out").iterdir():
            unfinished.rmdir()
        return get_range(key, start, length)

    store.get_range = remove
    broken_fetch(store, tmp_path, StoreError, r"cannot write .*/t/000\.json: No such file")


def test_no_handle_stays_open(store, push, tmp_path):
    handles = Path("/dev/fd")
    before = len(list(handles.iterdir()))
    (pack,) = push(make_run(tmp_path / "run", numbered(5))).packs
    fetch_run(store, eval_name="e", run_id=RUN, into=tmp_path / "got")
    store.delete(KEYS.pack(pack.sha256))
    broken_fetch(store, tmp_path, StoreError, "is listed but gone")
    with pytest.raises(UsageError, match="not a run folder"):
        push(tmp_path / "run/t/000.json")
    assert len(list(handles.iterdir())) == before


@pytest.mark.parametrize("at", [0, 57, 99])
def test_a_flipped_bit_in_a_pack_names_object_and_file(store, push, tmp_path, at):
    run = make_run(tmp_path / "run", {f"{number}": b"%d" % number * 10 for number in range(10)})
    (pack,) = push(run).packs
    key = KEYS.pack(pack.sha256)
    data = bytearray(store.get(key))
    data[at] ^= 4
    store.put(key, bytes(data))
    text = broken_fetch(store, tmp_path, DigestMismatch, f"packs/{pack.sha256} is corrupt")
    assert f"({at // 10}); 'mst store push {RUN} --repair'" in text


def test_a_pack_that_is_short_or_gone_is_named(store, push, tmp_path):
    (pack,) = push(make_run(tmp_path / "run", numbered(5))).packs
    key = KEYS.pack(pack.sha256)
    store.put(key, store.get(key)[:-1])
    broken_fetch(store, tmp_path, StoreError, f"packs/{pack.sha256} ends before byte")
    store.delete(key)
    broken_fetch(store, tmp_path, StoreError, f"packs/{pack.sha256} .t/000.json to t/004.json. is listed but gone")
    store.delete(KEYS.index(pack.index_sha256))
    broken_fetch(store, tmp_path, StoreError, f"indexes/{pack.index_sha256} .* is listed but gone")


def test_a_flipped_bit_in_an_index_is_named(store, push, tmp_path):
    (pack,) = push(make_run(tmp_path / "run", numbered(5))).packs
    key = KEYS.index(pack.index_sha256)
    store.put(key, store.get(key).replace(b"003", b"0x3"))
    broken_fetch(store, tmp_path, DigestMismatch, f"indexes/{pack.index_sha256} is corrupt")


def forge(store, manifest, index):
    """Put another index in, as a writer with a wrong program could have."""
    (pack,) = manifest.packs
    forged = pack.model_copy(update={"index_sha256": sha(index), "index_size": len(index)})
    store.put(KEYS.index(sha(index)), index)
    store.put(KEYS.manifest(1), manifest.model_copy(update={"packs": [forged]}).to_json())


@pytest.mark.parametrize(
    ("old", "new", "error", "match"),
    [
        (b'"t/001.json"', b'"../escaped"', CorruptFile, "line 3: .*plain relative path"),
        (b'"t/001.json"', b'"/etc/passwd"', CorruptFile, "line 3: .*plain relative path"),
        (b'"t/001.json"', b'"t/000.json"', CorruptFile, "t/000.json is listed twice"),
        (b'"t/001.json"', b'"t/000.json/x"', CorruptFile, "is a file and a folder"),
        (b'"offset":11', b'"offset":60', CorruptFile, "line 3: out of order, or outside"),
        (b'"offset":11', b'"offset":0', CorruptFile, None),
        (b'"length":11', b'"length":12', CorruptFile, "line 2: .*length and size differ"),
        (b'"files":5', b'"files":6', CorruptFile, "lists 6 files instead of 5"),
        (b"mst.pack/v1", b"mst.pack/v2", FormatError, "upgrade"),
        (b'"packSize":55', b'"packSize":54', CorruptFile, "index of another pack"),
        (b'{"path":"t/004.json"', b'{"path":"t/004.json', CorruptFile, "line 6"),
    ],
)
def test_an_index_that_lies_is_refused(store, push, tmp_path, old, new, error, match):
    manifest = push(make_run(tmp_path / "run", numbered(5)))
    index = store.get(KEYS.index(manifest.packs[0].index_sha256))
    changed = index.replace(old, new, 1)
    assert changed != index
    forge(store, manifest, changed)
    if match is None:
        # The wrong place in the pack holds another file's bytes.
        error, match = DigestMismatch, r"\(t/001.json\)"
    broken_fetch(store, tmp_path, error, match)
    assert not (tmp_path / "escaped").exists()


def test_a_cut_index_is_refused(store, push, tmp_path):
    manifest = push(make_run(tmp_path / "run", numbered(5)))
    index = store.get(KEYS.index(manifest.packs[0].index_sha256))
    forge(store, manifest, index[: index.rfind(b"{")])
    broken_fetch(store, tmp_path, CorruptFile, "lists 4 files instead of 5")


@given(st.lists(st.tuples(st.integers(0, 10), st.integers(0, 400_000)), max_size=30), st.integers(1, 600_000))
def test_windows_cover_every_file_once_and_stay_small(shape, range_bytes):
    offset, listed = 0, []
    for number, (length, gap) in enumerate(shape):
        offset += gap
        listed.append(PackEntry(path=f"{number:03}", size=length, length=length, sha256="0" * 64, offset=offset))
        offset += length
    found = list(windows(listed, range_bytes=range_bytes))
    assert [entry for window in found for entry in window.entries] == listed
    for window in found:
        assert window.length <= range_bytes or len(window.entries) == 1
        for entry in window.entries:
            assert window.start <= entry.offset
            assert entry.offset + entry.length <= window.start + window.length
        ends = [entry.offset + entry.length for entry in window.entries]
        assert all(later.offset - end <= GAP_BYTES for end, later in zip(ends, window.entries[1:], strict=False))


@given(st.lists(st.binary(max_size=60), max_size=30), st.integers(1, 100))
def test_what_goes_into_packs_comes_out(contents, pack_bytes):
    packer = Packer(pack_bytes=pack_bytes, later_bytes=pack_bytes)
    packs = [packer.add(f"{n:03}", data, sha(data)) for n, data in enumerate(contents)]
    packs = [packed for packed in [*packs, packer.finish()] if packed is not None]
    found = {}
    for packed in packs:
        pack = packed.pack
        assert (sha(packed.data), sha(packed.index)) == (pack.sha256, pack.index_sha256)
        for entry in read_index(packed.index, "here", pack=pack.sha256, pack_size=pack.size, files=pack.files):
            assert pack.first <= entry.path <= pack.last
            found[entry.path] = packed.data[entry.offset : entry.offset + entry.length]
    assert found == {f"{n:03}": data for n, data in enumerate(contents)}
    assert packer.finish() is None


def test_space_that_is_given_back_is_used_again():
    packer = Packer(pack_bytes=10, later_bytes=10)
    packer.add("a", b"0123456789", sha(b"0123456789"))
    first = packer.add("b", b"abc", sha(b"abc"))
    packer.give_back(first)
    second = packer.add("c", b"defghijkl", sha(b"defghijkl"))
    third = packer.finish()
    assert (bytes(second.data), bytes(third.data)) == (b"abc", b"defghijkl")
    assert third.space is first.space


def test_space_that_somebody_still_reads_is_left_alone():
    packer = Packer(pack_bytes=10, later_bytes=10)
    packer.add("a", b"0123456789", sha(b"0123456789"))
    first = packer.add("b", b"abc", sha(b"abc"))
    held = memoryview(first.data)
    packer.give_back(first)
    packer.add("c", b"defghijkl", sha(b"defghijkl"))
    assert packer.finish().space is not first.space
    assert bytes(held) == b"0123456789"


def test_scores_have_packs_of_their_own_which_are_read_in_step_with_the_others(store, push, tmp_path):
    files = {f"scores/x/{n:03}": b"%d" % n for n in range(300)}
    files |= {f"transcripts/{n:03}": bytes([n]) * 300_000 for n in range(40)}
    manifest = push(make_run(tmp_path / "run", files))
    kinds = [{pack.first.partition("/")[0], pack.last.partition("/")[0]} for pack in manifest.packs]
    assert kinds == [{"scores"}, *[{"transcripts"}] * (len(kinds) - 1)]
    assert len(kinds) > 2
    with closing(Unpacker(store, Listing.of(manifest), tmp_path)) as unpacker:
        planned = [pack.first.partition("/")[0] for pack, _ in unpacker.plan()]
    assert planned.index("scores") < len(planned) - 1
    assert push(tmp_path / "run") == manifest


@pytest.fixture
def short_indexes(monkeypatch):
    monkeypatch.setattr("mst.store.pack.LINES_MAX_BYTES", 3500)
    for module in ("listing", "reuse"):
        monkeypatch.setattr(f"mst.store.{module}.INDEX_MAX_BYTES", 4000)


def test_no_index_is_longer_than_readers_accept(short_indexes, store, push, tmp_path):
    manifest = push(make_run(tmp_path / "run", {f"{number:02}/{'d' * 200}": b"%d" % number for number in range(30)}))
    assert len(manifest.packs) > 2
    fetch_run(store, eval_name="e", run_id=RUN, into=tmp_path / "out")
    assert tree(tmp_path / "out") == tree(tmp_path / "run")


@pytest.mark.parametrize("names", ["a{}", "z{}"], ids=["before it", "after it"])
def test_a_content_that_many_files_share_later_makes_no_index_too_long(short_indexes, store, push, tmp_path, names):
    """A run that goes on: its first push knew one empty file, the next has one for each trial."""
    run = make_run(tmp_path / "run", {"m": b"", **{f"m{number}": b"%d" % number for number in range(12)}})
    push(run)
    make_run(run, {names.format(f"{number:03}/stderr"): b"" for number in range(100)})
    for name in ("m3", "m5"):
        (run / name).chmod(0o755)
    manifest = push(run)
    assert max(pack.index_size for pack in manifest.packs) <= 4000
    assert len(manifest.packs) > 2
    fetch_run(store, eval_name="e", run_id=RUN, into=tmp_path / "out")
    assert tree(tmp_path / "out") == tree(run)
    assert (tmp_path / "out/m3").stat().st_mode & stat.S_IXUSR


def test_reading_a_pack_holds_one_range(store, push, tmp_path, monkeypatch):
    monkeypatch.setattr("mst.store.pack.RANGE_BYTES", 1)
    run = make_run(tmp_path / "run", {f"{n:02}": bytes([n]) * 100_000 for n in range(30)})
    manifest = push(run)
    listing = Listing.of(manifest)
    tracemalloc.start()
    try:
        total = sum(len(data) for pack in manifest.packs for _, data in read_pack(store, listing, pack))
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert total == 3_000_000
    assert peak < 30_000_000


def test_facts_alone_make_a_new_generation(store, push, run_dir, facts, sent):
    push(run_dir, facts=dataclasses.replace(facts, complete=False))
    del sent[:]
    second = push(run_dir)
    assert (second.generation, second.complete) == (2, True)
    assert sent == [KEYS.manifest(2)]


PATHS = st.text(st.sampled_from("./\\\0a\nä"), max_size=8)


@given(PATHS)
def test_what_is_written_is_what_readers_accept(path):
    line = {"path": path, "size": 0, "sha256": "0" * 64, "offset": 0, "length": 0}
    try:
        check_path(path)
    except ValueError:
        with pytest.raises(ValidationError):
            TypeAdapter(PackEntry).validate_python(line)
    else:
        assert TypeAdapter(PackEntry).validate_python(line).path == path


@pytest.mark.parametrize(
    ("lines", "place"),
    [
        (lambda lines: [*lines[:700], lines[700].replace(b'"size"', b'"sise"'), *lines[701:]], "line 701"),
        (lambda lines: [*lines[:700], b"\n", *lines[700:]], "line 701"),
        (lambda lines: [*lines[:-1], lines[-1][:-1]], f"line {1001}: is cut"),
        (lambda lines: [*lines[:-1], lines[-1] + b"\n"], "line 1002"),
    ],
)
def test_the_line_of_a_long_index_that_is_wrong_is_told(lines, place):
    packer = Packer()
    for number in range(1000):
        packer.add(f"t/{number:04}.json", b"%d" % number, sha(b"%d" % number))
    packed = packer.finish()
    pack = packed.pack

    def read(index):
        return list(read_index(index, "here", pack=pack.sha256, pack_size=pack.size, files=pack.files))

    assert [entry.path for entry in read(packed.index)] == [f"t/{number:04}.json" for number in range(1000)]
    with pytest.raises(CorruptFile, match=place):
        read(b"".join(lines(packed.index.splitlines(keepends=True))))
