"""What a run spent is written again after a wipe, from its units in the store."""

import pytest

from mst.fleet.connect import connect
from mst.fleet.spend import FleetSpend, entry_name
from mst.fleet.spend_restore import restore_spend
from mst.model.keys import ComparisonKey, TrialKey
from mst.model.score import ComparisonGrading, GraderScore, Preference, TrialGrading
from mst.model.shard import unit_name
from mst.model.transcript import Usage
from mst.shards.spend import Budget, spend_unit
from mst.shards.units import UnitWriter
from mst.store.layout import RunKeys
from mst.store.uri import open_store
from mst.testing.servers import valkey

pytestmark = pytest.mark.server

RUN = "20260501T120000Z-abc123"
FIRST, SECOND = "1-" + "a" * 16, "2-" + "b" * 16


@pytest.fixture
def client(tmp_path):
    with valkey(tmp_path / "broker") as server:
        client = connect(server.url)
        yield client
        client.close()


def score(cost_usd, tokens):
    usage = Usage(input_tokens=tokens, output_tokens=0, total_cost_usd=cost_usd)
    return GraderScore(passed=True, score=1.0, judge_name="j", usage=usage)


def trial(case, cost_usd, tokens=10):
    key = TrialKey(variant="a", case_id=case, trial=0)
    return TrialGrading(key=key, trial_digest="d" * 64, scores={"j": score(cost_usd, tokens)}, identities={"j": "i"})


def leave(store, folder, dispatch, shard, attempt, grading):
    """A unit as an attempt leaves it."""
    folder.mkdir(exist_ok=True)
    writer = UnitWriter(folder, work="grade", run_id=RUN, shard=shard, digest="e" * 64, attempt=attempt, machine="m")
    path = folder / writer.graded(grading)
    keys = RunKeys("quiz", RUN).dispatch(dispatch).shard(shard)
    store.put(keys.unit(attempt, unit_name(grading.key)), path.read_bytes())


def test_every_stored_unit_counts_by_attempt_and_once(client, tmp_path):
    store, spend, left = open_store(f"file:{tmp_path / 'store'}"), FleetSpend(client, RUN), tmp_path / "units"
    leave(store, left, "d1", 0, FIRST, trial("c1", 0.25))
    leave(store, left, "d1", 0, SECOND, trial("c2", 0.5))
    # the same unit by a lost attempt was paid for as well
    leave(store, left, "d1", 0, SECOND, trial("c1", 0.125))
    usage = Usage(input_tokens=7, total_cost_usd=1.0)
    pair = ComparisonGrading(
        key=ComparisonKey(candidate="b", case_id="c1"),
        trial_digests=["d" * 64, "d" * 64],
        preferences={"p": Preference(judge="p", preference="tie", usage=usage)},
        identities={"p": "i"},
    )
    leave(store, left, "d2", 3, FIRST, pair)
    store.put(RunKeys("quiz", RUN).dispatch("d2").shard(3).unit(FIRST, "0" * 32 + ".json"), b"no unit")
    run = RunKeys("quiz", RUN)
    assert restore_spend(store, run, spend) == 4
    assert spend.spent() == (37, 1.875)
    assert restore_spend(store, run, spend) == 4
    assert spend.spent() == (37, 1.875), "again is the same"
    # a worker that tells later what it used says the same unit and attempt
    spend.settle(spend_unit(trial("c1", 0.25).key), entry_name("grade", FIRST), tokens=10, cost_usd=0.25)
    assert spend.spent() == (37, 1.875)
    assert spend.reserve("another", SECOND, Budget(cost_usd=1.8)).startswith("the budget is used up")


def test_a_run_without_a_unit_has_spent_nothing(client, tmp_path):
    store, spend = open_store(f"file:{tmp_path / 'store'}"), FleetSpend(client, RUN)
    assert restore_spend(store, RunKeys("quiz", RUN), spend) == 0
    assert spend.spent() == (0, 0)
