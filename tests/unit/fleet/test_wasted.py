"""What lost attempts cost, found from the spend ledger and the units that count."""

from mst.errors import BrokerError
from mst.fleet.wasted import wasted_by, with_wasted
from mst.model.keys import TrialKey
from mst.model.score import TrialGrading
from mst.shards.contract import ShardOutcome, ShardSpec
from mst.shards.spend import spend_unit
from mst.shards.units import UnitWriter

RUN = "20260101T000000Z-abcdef"
KEYS = [TrialKey(variant="a", case_id=f"c{number}", trial=0) for number in range(3)]


def spec_with(folder, units):
    """A shard whose results have these units: attempt ID by place in `KEYS`."""
    for number, attempt in units.items():
        writer = UnitWriter(folder, work="grade", run_id=RUN, shard=4, digest="d", attempt=attempt, machine="m")
        (folder / "units").mkdir(exist_ok=True)
        writer.graded(TrialGrading(key=KEYS[number], trial_digest="t", scores={}, identities={}))
    return ShardSpec(
        work="grade", run_id=RUN, eval_name="e", dispatch="d1", index=4, count=9, bundle=folder, digest="d",
        planned=KEYS, results=folder,
    )  # fmt: skip


class Ledger:
    def __init__(self, used, *, away=False):
        self.used, self.away = used, away

    def settled(self, work):
        assert work == "grade"
        if self.away:
            raise BrokerError("away")
        return self.used


USED = {
    spend_unit(KEYS[0]): {"1-a": (100.0, 0.5), "2-b": (90.0, 0.4)},
    spend_unit(KEYS[1]): {"1-a": (10.0, 0.1)},
    spend_unit(KEYS[2]): {"2-b": (7.0, 0.25)},
    "somebody-else's": {"1-a": (1000.0, 9.0)},
}


def test_what_counts_is_not_wasted_and_everything_else_of_the_shard_is(tmp_path):
    spec = spec_with(tmp_path, {0: "2-b", 1: "1-a"})
    assert wasted_by(spec, USED) == (107.0, 0.75)


def test_outcomes_say_it_by_shard(tmp_path):
    spec = spec_with(tmp_path, {0: "2-b", 1: "1-a", 2: "2-b"})
    [outcome] = with_wasted([ShardOutcome(shard=4, ok=True)], [spec], Ledger(USED))
    assert (outcome.wasted_tokens, outcome.wasted_usd) == (100, 0.5)


def test_a_ledger_that_is_away_changes_nothing(tmp_path):
    spec = spec_with(tmp_path, {})
    outcomes = [ShardOutcome(shard=4, ok=True)]
    assert with_wasted(outcomes, [spec], Ledger({}, away=True)) == outcomes
    assert with_wasted(outcomes, [spec], Ledger({})) == outcomes
