"""Which stored units the next attempt at a shard, or the coordinator that closes it, takes: singles and packs alike."""

from datetime import UTC, datetime

import pytest

from mst.fleet.adoption import Adoption, stored_names
from mst.model.base import canonical, digest_bytes
from mst.model.keys import TrialKey
from mst.model.manifest import ShardManifest
from mst.model.score import GraderScore, TrialGrading
from mst.model.shard import Unit, unit_name
from mst.shards.units import ARTIFACTS, UNITS, UnitWriter
from mst.store.layout import RunKeys
from mst.store.memory import MemoryStore
from mst.store.sink import UnitFiles, UnitSink
from mst.store.units import fetch_shard

RUN = "20260101T000000Z-abcdef"
DIGEST = "d" * 64
SHARD = RunKeys("e", RUN).dispatch("d1").shard(0)
KEYS = [TrialKey(variant="a", case_id=f"c{number}", trial=0) for number in range(40)]


@pytest.fixture
def store():
    return MemoryStore("adoption")


def writer(folder, digest=DIGEST):
    (folder / UNITS).mkdir(parents=True, exist_ok=True)
    return UnitWriter(folder, work="grade", run_id=RUN, shard=0, digest=digest, attempt="1-a", machine="m")


def graded(folder, key, *, error=None, digest=DIGEST):
    scores = {"judge.j": GraderScore(passed=False, error=error)} if error else {}
    return folder / writer(folder, digest).graded(TrialGrading(key=key, trial_digest="t", scores=scores, identities={}))


def collected(folder, key, *contents):
    (folder / ARTIFACTS).mkdir(parents=True, exist_ok=True)
    (folder / UNITS).mkdir(parents=True, exist_ok=True)
    files = [
        {"path": f"f{at}", "sha256": digest_bytes(content), "size": len(content)} for at, content in enumerate(contents)
    ]
    for content in contents:
        (folder / ARTIFACTS / digest_bytes(content)).write_bytes(content)
    record = {"variant": key.variant, "caseId": key.case_id, "trial": key.trial, "artifactFiles": files}
    unit = Unit(
        work="collect",
        run_id=RUN,
        shard=0,
        bundle_digest=DIGEST,
        collected=record,
        payload_digest=digest_bytes(canonical(record)),
    )
    path = folder / UNITS / unit_name(key)
    path.write_bytes(unit.to_json())
    return path, [folder / ARTIFACTS / digest_bytes(content) for content in contents]


def send(store, attempt, units, *, together=True):
    """Units of an attempt, in a pack save perhaps the first, or as an object each."""
    for group in [units] if together else [[one] for one in units]:
        with UnitSink(store, SHARD, attempt, stored=lambda _: None, spacing_s=3600) as sink:
            for own, beside in group:
                sink.take(UnitFiles(own.name, own, beside))
    return sink


def adoption(store, planned=KEYS, into=None):
    return Adoption(store, SHARD, planned, DIGEST, into=into)


def manifest(files, packs):
    facts = {"eval_name": "e", "run_id": RUN, "dispatch": "d1", "shard": 0, "bundle_digest": DIGEST, "author": "9-z"}
    return ShardManifest(**facts, created_at=datetime(2026, 1, 1, tzinfo=UTC), complete=True, files=files, packs=packs)


def brought(folder):
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.mark.parametrize("together", [True, False])
def test_units_are_taken_over_from_packs_and_objects(store, tmp_path, together):
    sink = send(store, "1-a", [(graded(tmp_path / "one", key), []) for key in KEYS[:9]], together=together)
    assert bool(sink.packs) == together
    found = adoption(store, into=tmp_path / "results")
    assert set(found.units) == set(KEYS[:9])
    assert brought(tmp_path / "results") == brought(tmp_path / "one")
    assert stored_names(store, SHARD, KEYS) == {unit_name(key) for key in KEYS[:9]}
    assert fetch_shard(store, manifest(*found.listed()), tmp_path / "fetched") == []
    assert brought(tmp_path / "fetched") == brought(tmp_path / "one")


def test_a_verdict_beats_an_error_then_the_lowest_attempt_counts(store, tmp_path):
    first = [graded(tmp_path / "one", key, error="no answer" if key == KEYS[1] else None) for key in KEYS[:5]]
    second = [graded(tmp_path / "two", key) for key in KEYS[:8]]
    send(store, "2-b", [(path, []) for path in second])
    send(store, "1-a", [(path, []) for path in first])
    found = adoption(store, into=tmp_path / "results")
    by_attempt = {key: one.attempt for key, one in found.units.items()}
    assert by_attempt == {key: "1-a" if key in KEYS[:5] and key != KEYS[1] else "2-b" for key in KEYS[:8]}
    assert (tmp_path / "results" / UNITS / unit_name(KEYS[1])).read_bytes() == second[1].read_bytes()
    assert fetch_shard(store, manifest(*found.listed()), tmp_path / "fetched") == []
    assert brought(tmp_path / "fetched") == brought(tmp_path / "results")


def test_what_is_not_planned_damaged_or_of_another_bundle_is_passed_over(store, tmp_path):
    damaged = graded(tmp_path, KEYS[1])
    damaged.write_bytes(damaged.read_bytes().replace(b'"trialDigest":"t"', b'"trialDigest":"u"'))
    moved = graded(tmp_path, KEYS[2])
    moved.write_bytes(graded(tmp_path, KEYS[3]).read_bytes())
    own = [graded(tmp_path, KEYS[0]), damaged, moved, graded(tmp_path, KEYS[4], digest="e" * 64)]
    send(store, "1-a", [(path, []) for path in [*own, graded(tmp_path, KEYS[5])]])
    assert set(adoption(store, planned=KEYS[:5]).units) == {KEYS[0]}


def test_an_artifact_of_several_units_and_attempts_is_listed_once(store, tmp_path):
    shared, large = b"shared", b"L" * 1_200_000
    one = [collected(tmp_path / "one", key, shared, large) for key in KEYS[:6]]
    two = [collected(tmp_path / "two", key, shared, large) for key in KEYS[6:9]]
    send(store, "1-a", one)
    send(store, "2-b", two)
    found = adoption(store, into=tmp_path / "results")
    assert set(found.units) == set(KEYS[:9])
    assert fetch_shard(store, manifest(*found.listed()), tmp_path / "fetched") == []
    assert brought(tmp_path / "fetched") == brought(tmp_path / "results")
    assert brought(tmp_path / "fetched") == brought(tmp_path / "one") | brought(tmp_path / "two")
    mine = {f"{ARTIFACTS}/{digest_bytes(shared)}"}
    files, packs = found.listed(besides=mine)
    fetch_shard(store, manifest(files, packs), tmp_path / "rest")
    assert brought(tmp_path / "fetched").keys() - brought(tmp_path / "rest").keys() == mine


@pytest.mark.parametrize("size", [10, 1_200_000])
def test_a_unit_whose_artifact_was_altered_is_done_again(store, tmp_path, size):
    mine = [collected(tmp_path / "one", key, bytes([number]) * size) for number, key in enumerate(KEYS[:4])]
    sink = send(store, "1-a", mine)
    place = digest_bytes(b"\2" * size)
    key = next((file.object for path, file in sink.files.items() if path.endswith(place)), None)
    if key is None:
        [key] = [pack.object for pack in sink.packs if b"\2" * size in store.get(pack.object)]
    store.put(key, store.get(key).replace(b"\2" * size, b"\2" * (size - 1) + b"!"))
    found = adoption(store, into=tmp_path / "results")
    assert set(found.units) == {KEYS[0], KEYS[1], KEYS[3]}
    assert unit_name(KEYS[2]) not in {path.name for path in (tmp_path / "results" / UNITS).iterdir()}


def test_a_unit_whose_artifact_is_gone_is_passed_over(store, tmp_path):
    send(
        store,
        "1-a",
        [collected(tmp_path / "one", key, b"%d" % number) for number, key in enumerate(KEYS[:3])],
        together=False,
    )
    [key] = [info.key for info in store.list(SHARD.folder) if info.key.endswith(digest_bytes(b"1"))]
    store.delete(key)
    assert set(adoption(store).units) == {KEYS[0], KEYS[2]}
