"""Shard manifests, regrade numbers and latest.json."""

from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime

import pytest

from mst.errors import CorruptFile, FormatError
from mst.model.manifest import ManifestFile, ShardManifest
from mst.store.commit import claim_regrade, commit_shard, publish_latest, read_latest, read_shard, shard_keys
from mst.store.layout import RunKeys, latest_key

from .conftest import RUN, latest

NOW = datetime(2026, 1, 2, tzinfo=UTC)


def shard_manifest(author, shard=0, **more):
    return ShardManifest(
        eval_name="e",
        run_id=RUN,
        dispatch="d1",
        shard=shard,
        bundle_digest="a" * 64,
        author=author,
        attempts=[author],
        created_at=NOW,
        complete=True,
        counts={"units": 1},
        files=[ManifestFile(path="units/x.json", size=1, sha256="b" * 64, object="e/x")],
        **more,
    )


def test_a_shard_is_committed_once(store):
    first, second = shard_manifest("1-aaaa"), shard_manifest("2-bbbb")
    assert read_shard(store, shard_keys(first)) is None
    assert commit_shard(store, first) == "committed"
    assert commit_shard(store, first) == "mine"
    assert commit_shard(store, second) == "fenced"
    assert read_shard(store, shard_keys(first)) == first


def test_a_whole_attempt_id_tells_mine_from_anothers(store):
    commit_shard(store, shard_manifest("1-aaaa"))
    assert commit_shard(store, shard_manifest("1-bbbb")) == "fenced"


def test_of_many_committers_one_commits(store):
    manifests = [shard_manifest(f"{number}-aaaa") for number in range(1, 17)]
    with ThreadPoolExecutor(16) as pool:
        outcomes = list(pool.map(lambda manifest: commit_shard(store, manifest), manifests))
    assert sorted(outcomes) == ["committed"] + ["fenced"] * 15
    winner = manifests[outcomes.index("committed")]
    assert read_shard(store, shard_keys(winner)) == winner


def test_a_manifest_in_the_wrong_place_is_corrupt(store):
    commit_shard(store, shard_manifest("1-aaaa"))
    keys = RunKeys("e", RUN).dispatch("d1").shard(1)
    store.put(keys.manifest, shard_manifest("1-aaaa").to_json())
    with pytest.raises(CorruptFile, match="shards/0"):
        read_shard(store, keys)


def test_a_truncated_manifest_is_named(store):
    keys = shard_keys(shard_manifest("1-aaaa"))
    store.put(keys.manifest, shard_manifest("1-aaaa").to_json()[:-20])
    for read in (lambda: read_shard(store, keys), lambda: commit_shard(store, shard_manifest("2-bbbb"))):
        with pytest.raises(CorruptFile, match=r"shards/0/manifest\.json") as caught:
            read()
        assert "\n" not in str(caught.value)


def test_a_newer_manifest_says_upgrade(store):
    keys = shard_keys(shard_manifest("1-aaaa"))
    store.put(keys.manifest, shard_manifest("1-aaaa").to_json().replace(b"manifest/v1", b"manifest/v2"))
    with pytest.raises(FormatError, match="upgrade"):
        read_shard(store, keys)


def test_regrades_are_numbered_from_two_and_claimed_once(store):
    def claim(claimant):
        return claim_regrade(store, eval_name="e", source=RUN, claimant=claimant, now=NOW)

    assert claim("first") == f"{RUN}.g2"
    with ThreadPoolExecutor(8) as pool:
        got = list(pool.map(claim, [f"racer {number}" for number in range(8)]))
    assert sorted(got) == sorted(f"{RUN}.g{number}" for number in range(3, 11))


def test_a_regrade_of_a_regrade_continues_the_numbers_and_skips_local_ones(store):
    store.put(RunKeys("e", "20260102T030405Z-ffffff.g9").claim, b"another run's")
    got = claim_regrade(store, eval_name="e", source=f"{RUN}.g4", claimant="c", now=NOW, at_least=7)
    assert got == f"{RUN}.g7"
    assert claim_regrade(store, eval_name="e", source=RUN, claimant="c", now=NOW) == f"{RUN}.g8"


def test_latest_moves_forward_only(store):
    old, new = latest(RUN, "2026-01-02T00:00:00Z"), latest("20260103T000000Z-abcdef", "2026-01-03T00:00:00+00:00")
    assert read_latest(store, "e") is None
    assert publish_latest(store, "e", old)
    assert publish_latest(store, "e", new)
    assert not publish_latest(store, "e", old)
    assert publish_latest(store, "e", new)
    assert read_latest(store, "e") == new


def test_a_later_regrade_of_the_same_collection_is_later(store):
    two, three = latest(f"{RUN}.g2", "2026-01-02T00:00:00Z"), latest(f"{RUN}.g3", "2026-01-02T00:00:00Z")
    publish_latest(store, "e", three)
    assert not publish_latest(store, "e", two)
    assert read_latest(store, "e") == three


def test_of_many_publishers_the_latest_stays(store):
    records = [latest(f"202601{day:02}T000000Z-abcdef", f"2026-01-{day:02}T00:00:00Z") for day in range(1, 13)]
    with ThreadPoolExecutor(12) as pool:
        list(pool.map(lambda record: publish_latest(store, "e", record), records))
    assert read_latest(store, "e") == records[-1]


def test_a_latest_of_an_earlier_version_is_read_and_written_anew(store):
    before, after = latest(RUN, "2026-01-02T00:00:00Z"), latest("20260103T000000Z-abcdef", "2026-01-03T00:00:00Z")
    store.put(latest_key("e"), before.to_json())
    assert b"checksum" not in store.get(latest_key("e"))
    assert read_latest(store, "e") == before
    assert not publish_latest(store, "e", latest("20260101T000000Z-abcdef", "2026-01-01T00:00:00Z"))
    assert publish_latest(store, "e", before)
    assert b"checksum" in store.get(latest_key("e"))
    assert publish_latest(store, "e", after)
    assert read_latest(store, "e") == after


def test_a_repair_writes_over_a_latest_that_cannot_be_read(store):
    record = latest(RUN, "2026-01-02T00:00:00Z")
    store.put(latest_key("e"), b"{")
    with pytest.raises(CorruptFile, match="--repair"):
        read_latest(store, "e")
    assert publish_latest(store, "e", record, repair=True)
    assert read_latest(store, "e") == record
    later = latest("20260103T000000Z-abcdef", "2026-01-03T00:00:00Z")
    assert publish_latest(store, "e", later)
    assert not publish_latest(store, "e", record, repair=True)
    assert read_latest(store, "e") == later


def test_a_broken_latest_is_named_and_kept(store):
    store.put(latest_key("e"), b"{")
    with pytest.raises(CorruptFile, match=r"e/latest\.json"):
        publish_latest(store, "e", latest(RUN, "2026-01-02T00:00:00Z"))
    assert store.get(latest_key("e")) == b"{"
