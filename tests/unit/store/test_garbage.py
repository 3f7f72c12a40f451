"""Objects that no writer of ours makes: readers say which is wrong, go on where they can, and a push mends it."""

import json
import os

import pytest

from mst.errors import CorruptFile, DigestMismatch, InfrastructureError, ObjectMissing, StoreError
from mst.model.manifest import ManifestFile, PackHeader, ShardManifest
from mst.store.fetch import fetch_run
from mst.store.layout import RunKeys, index_key, pack_key
from mst.store.pack import INDEX_MAX_BYTES, Packer
from mst.store.publish import push_run
from mst.store.units import StoredUnits, fetch_shard
from mst.store.verify import verify_run

from .conftest import RUN, make_run, sha, tree

KEYS = RunKeys("e", RUN)
SHARD = KEYS.dispatch("d1").shard(0)
ATTEMPT = "1-0123456789abcdef"
BIG = os.urandom(1_100_000)


@pytest.fixture
def run_dir(tmp_path):
    return make_run(tmp_path / "run", {"run.json": b"{}", "big": BIG, **{f"t/{n}": b"%d" % n * 100 for n in range(4)}})


@pytest.fixture
def manifest(store, run_dir, facts):
    return push_run(store, run_dir, eval_name="e", run_id=RUN, facts=facts)


def relist(store, manifest, **changes):
    """A next generation that lists something else."""
    sha256 = sha(store.get(KEYS.manifest(1)))
    changed = manifest.model_copy(update={"generation": 2, "predecessor": sha256, **changes})
    store.put(KEYS.manifest(2), changed.to_json())


def reindex(store, manifest, change):
    """A next generation whose pack has another index, of which every digest fits."""
    (pack,) = manifest.packs
    lines = [json.loads(line) for line in store.get(KEYS.index(pack.index_sha256)).splitlines()[1:]]
    lines = change(lines)
    head = PackHeader(pack=pack.sha256, pack_size=pack.size, files=len(lines)).to_json()
    index = b"".join(line + b"\n" for line in [head, *(json.dumps(line).encode() for line in lines)])
    store.put(KEYS.index(sha(index)), index)
    listed = {"index_sha256": sha(index), "index_size": len(index)}
    relist(store, manifest, packs=[pack.model_copy(update=listed)])


def listed_also(path, **more):
    return lambda store, m: relist(store, m, files=[*m.files, m.files[0].model_copy(update={"path": path, **more})])


def replaced(key, data):
    return lambda store, m: store.put(key(m), data)


def indexed(change):
    return lambda store, manifest: reindex(store, manifest, change)


SHORT = [
    pytest.param(replaced(lambda m: KEYS.pack(m.packs[0].sha256), b"x" * 90), CorruptFile, id="short pack"),
    pytest.param(replaced(lambda m: KEYS.pack(m.packs[0].sha256), BIG[:402]), DigestMismatch, id="other pack"),
    pytest.param(
        replaced(lambda m: KEYS.index(m.packs[0].index_sha256), b"x" * (INDEX_MAX_BYTES + 1)),
        CorruptFile,
        id="huge index",
    ),
    pytest.param(replaced(lambda m: KEYS.blob(m.files[0].sha256), BIG * 2), DigestMismatch, id="huge blob"),
    pytest.param(lambda store, m: store.delete(KEYS.pack(m.packs[0].sha256)), ObjectMissing, id="no pack"),
    pytest.param(lambda store, m: store.delete(KEYS.index(m.packs[0].index_sha256)), ObjectMissing, id="no index"),
    pytest.param(lambda store, m: store.delete(KEYS.blob(m.files[0].sha256)), ObjectMissing, id="no blob"),
    pytest.param(indexed(lambda lines: lines[:-1]), CorruptFile, id="index of less"),
    pytest.param(indexed(lambda lines: lines[::-1]), CorruptFile, id="index out of order"),
    pytest.param(indexed(lambda lines: [{**lines[0], "path": "../x"}, *lines[1:]]), CorruptFile, id="index climbs"),
]
"""Each with the error of a fetch."""

CLASHES = [
    pytest.param(listed_also("t/1"), id="file also in a pack"),
    pytest.param(listed_also("t/1/x"), id="file below a file"),
    pytest.param(listed_also("."), id="the folder itself"),
    pytest.param(lambda store, m: relist(store, m, packs=m.packs * 2), id="pack twice"),
    pytest.param(
        indexed(lambda lines: [lines[0], {**lines[1], "path": lines[0]["path"]}, *lines[2:]]), id="path twice"
    ),
]


def check_broken_fetch(store, tmp_path, error, match="."):
    with pytest.raises(error, match=match) as caught:
        fetch_run(store, eval_name="e", run_id=RUN, into=tmp_path / "out/run")
    assert "\n" not in str(caught.value)
    assert list((tmp_path / "out").iterdir()) == []
    return str(caught.value)


@pytest.mark.parametrize(("harm", "error"), SHORT)
def test_what_is_wrong_is_named_and_mended(store, manifest, run_dir, facts, tmp_path, harm, error):
    harm(store, manifest)
    assert "--repair" in check_broken_fetch(store, tmp_path, error)
    assert list(verify_run(store, KEYS)) != []
    push_run(store, run_dir, eval_name="e", run_id=RUN, facts=facts)
    push_run(store, run_dir, eval_name="e", run_id=RUN, facts=facts, repair=True)
    fetch_run(store, eval_name="e", run_id=RUN, into=tmp_path / "mended")
    assert tree(tmp_path / "mended") == tree(run_dir)


@pytest.mark.parametrize("harm", CLASHES)
def test_paths_that_clash_are_refused_whoever_comes_first(store, manifest, tmp_path, harm):
    harm(store, manifest)
    check_broken_fetch(store, tmp_path, CorruptFile, "listed twice, or is a file and a folder")


@pytest.mark.parametrize(
    "harm",
    [listed_also("n" * 300), indexed(lambda lines: [*lines[:-1], {**lines[-1], "path": "n" * 300}])],
    ids=["file", "pack"],
)
def test_a_path_that_no_disk_takes_is_one_clear_line(store, manifest, tmp_path, harm):
    harm(store, manifest)
    check_broken_fetch(store, tmp_path, StoreError, "cannot write .*too long")


@pytest.mark.parametrize(
    "harm",
    [
        listed_also("x", object="no key/of a store"),
        listed_also("x", size=10**19),
        lambda store, m: store.put(KEYS.manifest(2), b" " * (m.packs[0].size + 2**28)),
    ],
    ids=["no key", "no size", "huge"],
)
def test_a_manifest_that_says_what_cannot_be_gives_way_to_the_one_before(
    store, manifest, run_dir, facts, tmp_path, harm
):
    harm(store, manifest)
    fetch_run(store, eval_name="e", run_id=RUN, into=tmp_path / "out")
    assert tree(tmp_path / "out") == tree(run_dir)
    assert [wrong.key for wrong in verify_run(store, KEYS)] == [KEYS.manifest(2)]
    assert push_run(store, run_dir, eval_name="e", run_id=RUN, facts=facts, repair=True).generation == 2
    assert list(verify_run(store, KEYS)) == []


# a shard


def shard_of(store, change=lambda lines: lines):
    """A unit alone and four in a pack, whose index is changed."""
    packer = Packer()
    for number in range(4):
        data = b"unit %d" % number * 20
        packer.add(f"units/p{number}", data, sha(data))
    packed = packer.finish()
    head, *lines = packed.index.splitlines()
    changed = [json.dumps(line).encode() for line in change([json.loads(line) for line in lines])]
    index = b"".join(line + b"\n" for line in [head, *changed])
    folder = SHARD.attempt(ATTEMPT)
    key, own = pack_key(folder, packed.pack.sha256), index_key(folder, sha(index))
    store.put(key, bytes(packed.data))
    store.put(own, index)
    store.put(SHARD.unit(ATTEMPT, "alone"), b"alone")
    listed = {"object": key, "index_object": own, "index_sha256": sha(index), "index_size": len(index)}
    pack = packed.pack.model_copy(update=listed)
    return pack, ManifestFile(path="units/alone", size=5, sha256=sha(b"alone"), object=SHARD.unit(ATTEMPT, "alone"))


def manifest_of(facts, files, packs):
    named = {"eval_name": "e", "run_id": RUN, "dispatch": "d1", "shard": 0, "bundle_digest": "0" * 64, "author": "me"}
    return ShardManifest(**named, created_at=facts.created_at, complete=True, files=files, packs=packs)


@pytest.mark.parametrize(
    "path", ["units/alone/x", "units/p0/x", "../plan.json", "plan.json", "units", "units/" + "n" * 300, "other/p0"]
)
def test_a_shard_lists_units_and_artifacts_and_nothing_else(store, facts, tmp_path, path):
    """Whoever writes a shard's objects is a worker: what it lists may be written nowhere else on a coordinator."""
    pack, alone = shard_of(store, lambda lines: [*lines[:3], {**lines[3], "path": path}])
    good = {"units/alone": b"alone", **{f"units/p{number}": b"unit %d" % number * 20 for number in range(3)}}
    (tmp_path / "results").mkdir()
    files = [alone]
    if not path.startswith("../"):
        files += [alone.model_copy(update={"path": path})]
        assert StoredUnits(store, SHARD, ATTEMPT).names == {"alone", "p0", "p1", "p2"}
    faults = fetch_shard(store, manifest_of(facts, files, [pack]), tmp_path / "results")
    assert faults
    assert all("no unit and no artifact" in fault or "plain relative path" in fault for fault in faults)
    found = tree(tmp_path / "results")
    assert found == good if not path.startswith("../") else found == {"units/alone": b"alone"}
    assert sorted(path.name for path in tmp_path.iterdir()) == ["results"]


@pytest.mark.parametrize("harm", ["short pack", "huge index", "huge unit"])
def test_an_object_of_a_wrong_size_costs_a_shard_that_object(store, facts, tmp_path, harm):
    pack, alone = shard_of(store)
    key, data = {
        "short pack": (pack.object, b"x"),
        "huge index": (pack.index_object, b"x" * (INDEX_MAX_BYTES + 1)),
        "huge unit": (alone.object, b"x" * 1000),
    }[harm]
    store.put(key, data)
    (fault,) = fetch_shard(store, manifest_of(facts, [alone], [pack]), tmp_path / "results")
    assert key in fault
    packed = {f"units/p{number}" for number in range(4)}
    assert set(tree(tmp_path / "results")) == (packed if harm == "huge unit" else {"units/alone"})
    stored = StoredUnits(store, SHARD, ATTEMPT)
    assert dict(stored.read(stored.names, max_bytes=900)).keys() == {"huge unit": {"p0", "p1", "p2", "p3"}}.get(
        harm, {"alone"}
    )


def test_an_index_that_nobody_could_have_made_stops_no_takeover(store):
    shard_of(store)
    store.put(index_key(SHARD.attempt(ATTEMPT), "0" * 64), b"x" * (INDEX_MAX_BYTES + 1))
    assert StoredUnits(store, SHARD, ATTEMPT).names == {"alone", "p0", "p1", "p2", "p3"}


def test_a_unit_that_grows_while_it_is_read_is_passed_over(store):
    shard_of(store)
    stored = StoredUnits(store, SHARD, ATTEMPT)
    store.put(SHARD.unit(ATTEMPT, "alone"), b"x" * 1000)
    assert dict(stored.read(["alone"], max_bytes=900)) == {}


def test_a_disk_that_refuses_a_unit_is_named(store, facts, tmp_path):
    _, alone = shard_of(store)
    (tmp_path / "results").write_bytes(b"in the way")
    with pytest.raises(InfrastructureError, match="cannot"):
        fetch_shard(store, manifest_of(facts, [alone], []), tmp_path / "results")
