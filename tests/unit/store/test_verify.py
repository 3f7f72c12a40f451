"""Any flipped bit of what a store keeps of a run is found, and the object that has it is named."""

import json
from datetime import UTC, datetime

import pytest

from mst.model.base import canonical, digest_bytes
from mst.model.fleet import Closed, ClosedShard, DispatchRecord, ShardLimits, ShardPlan
from mst.model.keys import TrialKey
from mst.model.manifest import ShardManifest
from mst.model.shard import Unit, unit_name
from mst.store.commit import claim_regrade, commit_shard, publish_latest
from mst.store.find import read_run
from mst.store.layout import RunKeys, latest_key
from mst.store.publish import push_run
from mst.store.verify import verify_latest, verify_run, verify_store
from mst.store.verify_dispatch import verify_unit

from .conftest import RUN, latest

AT = datetime(2026, 1, 2, tzinfo=UTC)
KEYS = RunKeys("my eval", RUN)
DISPATCH = KEYS.dispatch("d1")


@pytest.fixture
def push(store, facts):
    return lambda folder, run_id=RUN: push_run(store, folder, eval_name="my eval", run_id=run_id, facts=facts)


def wrong(store):
    return {one.key for one in [*verify_run(store, KEYS), *verify_latest(store, "my eval")]}


BUNDLE, PLAN, ATTEMPT = b"bundle", b"plan", "1-" + "a" * 16
SHARD = DISPATCH.shard(0)


def flipped(data, at):
    return data[:at] + bytes([data[at] ^ (1 << at % 8)]) + data[at + 1 :]


@pytest.fixture
def sent(store):
    """A store with a dispatch that was sent, its one bundle and its plan; their keys."""
    plan = ShardPlan(shard=0, case_ids=["c"], units=1, bundle_sha256=digest_bytes(BUNDLE), bundle_digest="b" * 64,
                     bundle_bytes=len(BUNDLE))  # fmt: skip
    record = DispatchRecord(
        run_id=RUN, dispatch="d1", work="grade", eval_name="my eval", created=AT, deadline=AT, count=1, shards=[plan],
        limits=ShardLimits(), queue="q", broker="redis://b", mst="1", key_id="0" * 16, plan_sha256=digest_bytes(PLAN),
    )  # fmt: skip
    objects = {
        DISPATCH.record: record.to_json(),
        DISPATCH.plan: PLAN,
        DISPATCH.bundle(digest_bytes(BUNDLE)): BUNDLE,
    }
    for key, data in objects.items():
        store.put(key, data)
    return list(objects)


@pytest.fixture
def dispatched(store, sent):
    """The same, and closed."""
    closed = Closed(run_id=RUN, dispatch="d1", work="grade", reason="done", closed_at=AT, machine="m", shards=[])
    store.put(DISPATCH.closed, closed.to_json())
    return [*sent, DISPATCH.closed]


@pytest.fixture
def worked(store, sent):
    """A dispatch under way: a worker has stored a unit, and an artifact beside one. Their keys."""
    payload = {"variant": "v", "caseId": "c", "trial": 0}
    unit = Unit(work="collect", run_id=RUN, shard=0, bundle_digest="b" * 64, attempt=ATTEMPT, machine="m",
                collected=payload, payload_digest=digest_bytes(canonical(payload)))  # fmt: skip
    key = SHARD.unit(ATTEMPT, unit_name(TrialKey(variant="v", case_id="c", trial=0)))
    artifact = SHARD.unit(ATTEMPT, digest_bytes(b"artifact"))
    store.put(key, unit.to_json())
    store.put(artifact, b"artifact")
    return [*sent, key, artifact]


def test_any_flipped_bit_is_found(store, push, run_dir, dispatched):
    push(run_dir)
    publish_latest(store, "my eval", latest(RUN, "2026-01-02T03:04:05Z"))
    assert wrong(store) == set()
    keys = [latest_key("my eval"), KEYS.manifest(1), *dispatched]
    for key in keys:
        good = store.get(key)
        for at in (0, len(good) // 2, len(good) - 1):
            store.put(key, flipped(good, at))
            assert wrong(store) == {key}, (key, at)
        store.put(key, good)
    assert wrong(store) == set()


def test_a_record_without_a_checksum_is_neither_wrong_nor_proven(store, push, run_dir, dispatched):
    """As earlier versions wrote them: said, each, and what one says of others is checked all the same."""
    push(run_dir)
    publish_latest(store, "my eval", latest(RUN, "2026-01-02T03:04:05Z"))
    records = [latest_key("my eval"), DISPATCH.record, DISPATCH.closed]
    for key in records:
        content = json.loads(store.get(key))
        del content["checksum"]
        store.put(key, json.dumps(content).encode())
    found = [*verify_run(store, KEYS), *verify_latest(store, "my eval")]
    assert {one.key: one.unproven for one in found} == dict.fromkeys(records, True)
    store.put(DISPATCH.record, store.get(DISPATCH.record).replace(b'"queue"', b'"queuf"'))
    store.put(DISPATCH.closed, store.get(DISPATCH.closed).replace(b'"d1"', b'"d2"'))
    assert {one.key for one in verify_run(store, KEYS) if not one.unproven} == {DISPATCH.record, DISPATCH.closed}


def test_a_flipped_bit_of_a_claim_is_found(store, push, run_dir):
    run_id = claim_regrade(store, eval_name="my eval", source=RUN, claimant="me", now=AT)
    keys = RunKeys("my eval", run_id)
    push(run_dir, run_id=run_id)
    assert list(verify_run(store, keys)) == []
    good = store.get(keys.claim)
    store.put(keys.claim, good.replace(b'"me"', b'"mu"'))
    assert [one.key for one in verify_run(store, keys)] == [keys.claim]


def test_a_record_of_another_dispatch_is_named(store, push, run_dir, dispatched):
    push(run_dir)
    other = KEYS.dispatch("d2")
    store.put(other.record, store.get(DISPATCH.record))
    store.put(other.closed, store.get(DISPATCH.closed))
    assert wrong(store) == {other.record, other.closed}


@pytest.mark.parametrize("gone", [1, 2])
def test_a_generation_that_is_gone_is_named(store, push, run_dir, gone):
    for content in (b"1", b"2", b"3"):
        (run_dir / "run.json").write_bytes(content)
        push(run_dir)
    assert wrong(store) == set()
    store.delete(KEYS.manifest(gone))
    assert wrong(store) == {KEYS.manifest(gone)}


def test_a_leftover_that_a_push_may_rely_on_is_checked(store, push, run_dir):
    push(run_dir)
    good = KEYS.pack(digest_bytes(b"pack"))
    store.put(good, b"pack")
    assert wrong(store) == set()
    store.put(good, b"pact")
    assert wrong(store) == {good}


def wrong_in_all(store):
    return {one.key for one in verify_store(store)}


def test_a_dispatch_under_way_is_checked_before_its_run_has_a_manifest(store, worked):
    """Its units may be adopted, and its bundles are read by whoever is asked next."""
    assert wrong_in_all(store) == set()
    for key in worked:
        good = store.get(key)
        for at in (0, len(good) - 1):
            store.put(key, flipped(good, at))
            assert wrong_in_all(store) == {key}, (key, at)
        store.put(key, good)


def test_of_a_unit_nothing_but_the_machines_name_and_its_bundle_may_change_unseen(store, worked):
    """No manifest has its digest yet. Another bundle's unit is refused by who takes over."""
    key = next(key for key in worked if key.endswith(".json") and "/units/" in key)
    good, unseen = store.get(key), set()
    for at in range(len(good)):
        store.put(key, flipped(good, at))
        if not verify_unit(store, key):
            unseen.add(at)
    values = {b'"machine":"m"': 11, b'"bundleDigest":"' + b"b" * 64: 16}
    may = {good.index(part) + at for part, begin in values.items() for at in range(begin, len(part))}
    assert unseen <= may


def test_a_unit_in_anothers_place_is_named(store, worked):
    key = next(key for key in worked if key.endswith(".json") and "/units/" in key)
    elsewhere = [DISPATCH.shard(1).unit(ATTEMPT, key.rpartition("/")[2]), SHARD.unit(ATTEMPT, f"{'0' * 32}.json")]
    for other in elsewhere:
        store.put(other, store.get(key))
    assert wrong_in_all(store) == set(elsewhere)


def test_what_an_open_dispatch_needs_is_missed(store, worked):
    for key in worked[:3]:
        good = store.get(key)
        store.delete(key)
        assert wrong_in_all(store) == {key}
        store.put(key, good)


def test_what_is_not_there_yet_or_any_more_is_not_missed(store, sent):
    """While a dispatch is sent its record is there first; the bundles of one that is over are collected."""
    for key in sent[1:]:
        store.delete(key)
    assert wrong_in_all(store) == set()
    store.delete(sent[0])
    assert wrong_in_all(store) == set()


def test_another_shard_manifest_than_was_closed_with_is_named(store, worked):
    manifest = ShardManifest(eval_name="my eval", run_id=RUN, dispatch="d1", shard=0, bundle_digest="b" * 64,
                             author="x", created_at=AT, complete=False)  # fmt: skip
    commit_shard(store, manifest)
    shard = ClosedShard(shard=0, manifest_sha256=digest_bytes(store.get(SHARD.manifest)), complete=False, adopted=True)
    closed = Closed(run_id=RUN, dispatch="d1", work="grade", reason="done", closed_at=AT, machine="m", shards=[shard])
    store.put(DISPATCH.closed, closed.to_json())
    assert wrong_in_all(store) == set()
    store.put(SHARD.manifest, manifest.model_copy(update={"author": "y"}).to_json())
    assert wrong_in_all(store) == {SHARD.manifest}
    store.delete(SHARD.manifest)
    assert wrong_in_all(store) == set()


def test_a_regrades_source_is_missed(store, push, run_dir, facts, tmp_path):
    push(run_dir)
    other = tmp_path / "regrade"
    other.mkdir()
    (other / "run.json").write_bytes(b"regrade")
    source = read_run(store, KEYS)
    push_run(store, other, eval_name="my eval", run_id=f"{RUN}.g2", facts=facts, source=source)
    assert wrong_in_all(store) == set()
    store.delete(KEYS.manifest(1))
    assert wrong_in_all(store) == {KEYS.manifest(1)}


def test_a_latest_that_names_nothing_is_named_in_an_eval_without_runs(store):
    publish_latest(store, "my eval", latest(RUN, "2026-01-02T03:04:05Z"))
    assert wrong_in_all(store) == {KEYS.folder}


def test_each_wrong_object_says_what_mends_it(store, push, run_dir, dispatched):
    push(run_dir)
    publish_latest(store, "my eval", latest(RUN, "2026-01-02T03:04:05Z"))
    (run_dir / "run.json").write_bytes(b"2")
    push(run_dir)
    leftover = KEYS.pack(digest_bytes(b"pack"))
    keys = {
        latest_key("my eval"): "push RUN --repair",
        KEYS.manifest(2): f"mst store push {RUN} --repair",
        KEYS.manifest(1): "the next generation counts",
        leftover: "mst store gc",
        KEYS.claim: "keeps its number",
        DISPATCH.record: "delete it and attach again",
        DISPATCH.closed: f"mst attach {RUN}",
        SHARD.manifest: "delete it and attach again",
    }
    for key in keys:
        store.put(key, b"{")
    found = {one.key: one.mend for one in verify_store(store)}
    assert {key for key, said in keys.items() if said in found[key]} == set(keys)
