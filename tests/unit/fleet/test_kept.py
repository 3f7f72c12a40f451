"""Units that a store did not take, kept for the next attempt on the same machine."""

import shutil

import pytest

from mst.fleet import kept as room
from mst.fleet.kept import KeptUnits
from mst.model.fleet import ShardRef
from mst.model.keys import TrialKey
from mst.model.score import TrialGrading
from mst.model.shard import unit_name
from mst.shards.contract import ShardSpec
from mst.shards.units import UNITS, UnitWriter

RUN = "20260101T000000Z-abcdef"
DIGEST = "d" * 64
KEYS = [TrialKey(variant="a", case_id=f"c{number}", trial=0) for number in range(3)]


@pytest.fixture
def spec(tmp_path):
    return ShardSpec(
        work="grade",
        run_id=RUN,
        eval_name="e",
        dispatch="d1",
        index=0,
        count=1,
        bundle=tmp_path / "bundle",
        digest=DIGEST,
        planned=KEYS,
        results=tmp_path / "results",
    )


@pytest.fixture
def kept(tmp_path):
    (tmp_path / "scratch").mkdir()
    return KeptUnits(tmp_path / "scratch")


def ref(shard=0):
    return ShardRef(run_id=RUN, dispatch="d1", work="grade", shard=shard)


def graded(folder, keys=KEYS, digest=DIGEST):
    writer = UnitWriter(folder, work="grade", run_id=RUN, shard=0, digest=digest, attempt="1-" + "0" * 16, machine="m")
    (folder / UNITS).mkdir(parents=True)
    for key in keys:
        writer.graded(TrialGrading(key=key, trial_digest="t", scores={}, identities={}))
    return folder


def test_what_was_kept_comes_back_once_without_what_the_store_has(kept, spec, tmp_path):
    kept.keep(ref(), graded(tmp_path / "old"))
    taken = kept.take(ref(), spec, {KEYS[0]})
    assert [done.key for done, _ in taken] == KEYS[1:]
    assert all(paths[0] == spec.results / UNITS / unit_name(done.key) for done, paths in taken)
    assert all(path.is_file() for _, paths in taken for path in paths)
    assert kept.take(ref(), spec, set()) == []


def test_units_of_another_bundle_or_damaged_ones_do_not_come_back(kept, spec, tmp_path):
    kept.keep(ref(), graded(tmp_path / "old", digest="e" * 64))
    assert kept.take(ref(), spec, set()) == []
    old = graded(tmp_path / "other")
    (old / UNITS / unit_name(KEYS[1])).write_text("{")
    kept.keep(ref(), old)
    assert [done.key for done, _ in kept.take(ref(), spec, set())] == [KEYS[0], KEYS[2]]


def test_another_shard_gets_nothing(kept, spec, tmp_path):
    kept.keep(ref(shard=3), graded(tmp_path / "old"))
    assert kept.take(ref(), spec, set()) == []


def test_only_the_newest_shards_are_kept(kept, tmp_path, monkeypatch):
    monkeypatch.setattr(room, "KEPT_MAX", 2)
    for shard in range(4):
        kept.keep(ref(shard), graded(tmp_path / str(shard)))
    assert len(list((tmp_path / "scratch" / "kept").iterdir())) == 2


def test_an_attempt_that_had_no_results_keeps_nothing(kept, spec, tmp_path):
    kept.keep(ref(), tmp_path / "missing")
    shutil.rmtree(tmp_path / "results", ignore_errors=True)
    assert kept.take(ref(), spec, set()) == []
