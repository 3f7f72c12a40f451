"""Any flipped bit of what a store keeps of a run is found, and the object that has it is named."""

from datetime import UTC, datetime

import pytest

from mst.model.base import digest_bytes
from mst.model.fleet import Closed, DispatchRecord, ShardLimits
from mst.store.commit import claim_regrade, publish_latest
from mst.store.layout import RunKeys, latest_key
from mst.store.publish import push_run
from mst.store.verify import verify_latest, verify_run

from .conftest import RUN, latest

AT = datetime(2026, 1, 2, tzinfo=UTC)
KEYS = RunKeys("my eval", RUN)
DISPATCH = KEYS.dispatch("d1")


@pytest.fixture
def push(store, facts):
    return lambda folder, run_id=RUN: push_run(store, folder, eval_name="my eval", run_id=run_id, facts=facts)


def wrong(store):
    return {one.key for one in [*verify_run(store, KEYS), *verify_latest(store, "my eval")]}


@pytest.fixture
def dispatched(store):
    """A store with a dispatch and its one bundle."""
    bundle = b"bundle"
    record = DispatchRecord(
        run_id=RUN, dispatch="d1", work="grade", eval_name="my eval", created=AT, deadline=AT, count=1, shards=[],
        limits=ShardLimits(), queue="q", broker="redis://b", mst="1", key_id="0" * 16,
    )  # fmt: skip
    closed = Closed(run_id=RUN, dispatch="d1", work="grade", reason="done", closed_at=AT, machine="m", shards=[])
    store.put(DISPATCH.record, record.to_json())
    store.put(DISPATCH.closed, closed.to_json())
    store.put(DISPATCH.bundle(digest_bytes(bundle)), bundle)
    return [DISPATCH.record, DISPATCH.closed, DISPATCH.bundle(digest_bytes(bundle))]


def test_any_flipped_bit_is_found(store, push, run_dir, dispatched):
    push(run_dir)
    publish_latest(store, "my eval", latest(RUN, "2026-01-02T03:04:05Z"))
    assert wrong(store) == set()
    keys = [latest_key("my eval"), KEYS.manifest(1), *dispatched]
    for key in keys:
        good = store.get(key)
        for at in (0, len(good) // 2, len(good) - 1):
            store.put(key, good[:at] + bytes([good[at] ^ (1 << at % 8)]) + good[at + 1 :])
            assert wrong(store) == {key}, (key, at)
        store.put(key, good)
    assert wrong(store) == set()


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
