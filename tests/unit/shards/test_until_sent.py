"""A dispatch that another coordinator sent first is followed; one that nobody sent after all is passed over."""

from mst.errors import DispatchTaken
from mst.model.shard import DispatchPlan
from mst.shards.coordinate import PLAN, until_sent


class Elsewhere:
    """A runner whose store has the plans of another coordinator after some looks."""

    def __init__(self, after):
        self.looks = 0
        self.after = after

    def recall(self, work):
        self.looks += 1
        if self.looks == self.after:
            (work / "d2").mkdir()
            plan = DispatchPlan(
                work="grade", run_id="20260101T000000Z-abcdef", eval_name="e", dispatch="d2", count=1, shards=[]
            )
            (work / "d2" / PLAN).write_bytes(plan.to_json())


def attempts(answers):
    """A step that is taken once for each answer; errors are raised."""

    def step():
        answer = next(answers)
        if isinstance(answer, Exception):
            raise answer
        return answer

    return step


def test_the_plan_of_who_was_first_is_there_before_the_next_try(tmp_path, monkeypatch):
    monkeypatch.setattr("mst.shards.coordinate.TAKEN_S", 6.0)
    runner = Elsewhere(after=2)
    step = attempts(iter([DispatchTaken("taken", "d2"), "followed"]))
    assert until_sent(runner, tmp_path, step) == "followed"
    assert runner.looks == 2


def test_a_number_that_was_taken_and_never_used_is_not_waited_for_for_ever(tmp_path, monkeypatch):
    monkeypatch.setattr("mst.shards.coordinate.TAKEN_S", 0.05)
    runner = Elsewhere(after=0)
    step = attempts(iter([DispatchTaken("taken", "d2"), "sent as d3"]))
    assert until_sent(runner, tmp_path, step) == "sent as d3"
    assert runner.looks > 0
