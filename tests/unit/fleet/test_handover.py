"""What another machine takes up of a dispatch is what was sent."""

import uuid
from datetime import UTC, datetime

import pytest

from mst.errors import CorruptFile
from mst.fleet.handover import read_record, recall_plans
from mst.model.base import digest_bytes
from mst.model.fleet import DispatchRecord, ShardLimits
from mst.model.shard import DispatchPlan
from mst.store import open_store
from mst.store.layout import RunKeys

AT = datetime(2026, 1, 2, tzinfo=UTC)
KEYS = RunKeys("e", "20260102T030405Z-abc123")
DISPATCH = KEYS.dispatch("d1")


def plan(count):
    return DispatchPlan(
        work="grade", run_id=KEYS.run_id, eval_name="e", dispatch="d1", count=count, shards=[]
    ).to_json()


@pytest.fixture
def store():
    """A store with a dispatch."""
    found = open_store(f"memory:{uuid.uuid4().hex}", patience_s=0)
    record = DispatchRecord(
        run_id=KEYS.run_id, dispatch="d1", work="grade", eval_name="e", created=AT, deadline=AT, count=2, shards=[],
        limits=ShardLimits(), queue="q", broker="redis://b", mst="1", key_id="0" * 16,
        plan_sha256=digest_bytes(plan(2)),
    )  # fmt: skip
    found.put(DISPATCH.record, record.to_json())
    found.put(DISPATCH.plan, plan(2))
    return found


def test_the_plan_that_was_sent_is_recalled(store, tmp_path):
    recall_plans(store, KEYS, tmp_path)
    assert (tmp_path / "d1" / "plan.json").read_bytes() == plan(2)


def test_another_plan_than_was_sent_is_refused(store, tmp_path):
    """Such as one of a dispatch with this number whose claim was taken back."""
    store.put(DISPATCH.plan, plan(4))
    with pytest.raises(CorruptFile, match=r"d1/plan\.json: is not the plan that was sent"):
        recall_plans(store, KEYS, tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_a_record_that_is_not_as_it_was_says_what_mends_it(store, tmp_path):
    store.put(DISPATCH.record, store.get(DISPATCH.record)[:-9])
    for read in (lambda: read_record(store, DISPATCH), lambda: recall_plans(store, KEYS, tmp_path)):
        with pytest.raises(CorruptFile, match=r"d1/dispatch\.json: .*delete it and attach again"):
            read()
