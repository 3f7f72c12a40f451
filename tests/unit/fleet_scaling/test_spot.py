"""When a machine is protected, drained, hurried and given up: the decisions alone, and the keeper that follows them."""

import threading

from hypothesis import given
from hypothesis import strategies as st

from mst.errors import InfrastructureError
from mst.fleet.spot import Keeper, Watch


def test_busy_is_protected_and_idle_is_not():
    watch = Watch(idle_s=None)
    assert watch.decide(now=0, held=1, notice="none") == ["protect"]
    watch.protected = True
    assert watch.decide(now=1, held=1, notice="none") == []
    assert watch.decide(now=2, held=0, notice="none") == ["release"]


def test_a_refused_protection_is_asked_for_again():
    watch = Watch(idle_s=None)
    assert watch.decide(now=0, held=1, notice="none") == ["protect"]
    assert watch.decide(now=1, held=1, notice="none") == ["protect"]


def test_it_retires_after_idle_time_and_only_once():
    watch = Watch(idle_s=300, protected=False)
    assert watch.decide(now=0, held=0, notice="none") == []
    assert watch.decide(now=299, held=0, notice="none") == []
    assert watch.decide(now=300, held=0, notice="none") == ["retire"]
    assert watch.decide(now=301, held=0, notice="none") == []


def test_a_shard_starts_the_idle_time_again():
    watch = Watch(idle_s=300, protected=False)
    watch.decide(now=0, held=0, notice="none")
    watch.decide(now=200, held=1, notice="none")
    assert "retire" not in watch.decide(now=301, held=0, notice="none")


def test_a_stop_gives_units_their_grace_and_then_hurries():
    watch = Watch(idle_s=None, grace_s=60, protected=True)
    assert watch.decide(now=0, held=1, notice="stop") == ["drain"]
    assert watch.decide(now=59, held=1, notice="stop") == []
    assert watch.decide(now=60, held=1, notice="stop") == ["hurry"]
    assert watch.decide(now=61, held=1, notice="stop") == []


def test_a_recommendation_drains_without_hurry_until_the_stop_comes():
    watch = Watch(idle_s=None, grace_s=60, protected=True)
    assert watch.decide(now=0, held=1, notice="rebalance") == ["drain"]
    assert watch.decide(now=600, held=1, notice="rebalance") == []
    assert watch.decide(now=601, held=1, notice="stop") == []
    assert watch.decide(now=661, held=1, notice="stop") == ["hurry"]


steps = st.lists(
    st.tuples(st.integers(1, 100), st.integers(0, 2), st.sampled_from(["none", "rebalance", "stop"])), max_size=60
)


@given(steps)
def test_each_end_is_said_once_and_never_hurry_before_drain(history):
    watch, now, said = Watch(idle_s=150, grace_s=60), 0, []
    for after, held, notice in history:
        now += after
        said += [step for step in watch.decide(now=now, held=held, notice=notice) if step not in ("protect", "release")]
    assert len(said) == len(set(said))
    assert "hurry" not in said or said.index("drain") < said.index("hurry")


class Cloud:
    def __init__(self):
        self.plans, self.done, self.is_down = "none", [], False

    def notice(self):
        return self.plans

    def protect(self, protected):
        if self.is_down:
            raise InfrastructureError("throttled")
        self.done.append(("protect", protected))

    def end(self):
        self.done.append("end")


def keeper_of(cloud, **watch):
    done = []
    now = [0.0]
    keeper = Keeper(
        cloud,
        Watch(**watch),
        drain=lambda: done.append("drain"),
        hurry=lambda: done.append("hurry"),
        clock=lambda: now[0],
    )
    return keeper, done, now


def test_the_machine_is_protected_before_the_shard_begins():
    cloud = Cloud()
    keeper, _, _ = keeper_of(cloud, idle_s=None)
    with keeper.holding():
        assert cloud.done == [("protect", True)]
    keeper.look()
    assert cloud.done[-1] == ("protect", False)


def test_a_cloud_that_does_not_answer_stops_no_work():
    cloud = Cloud()
    cloud.is_down = True
    keeper, _, _ = keeper_of(cloud, idle_s=None)
    with keeper.holding():
        pass
    cloud.is_down = False
    with keeper.holding():
        assert cloud.done == [("protect", True)]


def test_an_idle_machine_drains_first_and_ends_after_the_worker():
    cloud = Cloud()
    keeper, done, now = keeper_of(cloud, idle_s=60)
    keeper.look()
    now[0] = 60
    keeper.look()
    assert done == ["drain"]
    assert "end" not in cloud.done
    keeper.finish()
    assert cloud.done[-1] == "end"


def test_a_notice_after_retiring_does_not_ask_twice():
    cloud = Cloud()
    keeper, done, now = keeper_of(cloud, idle_s=60)
    keeper.look()
    now[0] = 60
    keeper.look()
    cloud.plans = "stop"
    keeper.look()
    assert done == ["drain"]


def test_a_reclaimed_machine_is_not_ended_by_its_worker():
    cloud = Cloud()
    cloud.plans = "stop"
    keeper, done, _ = keeper_of(cloud, idle_s=60)
    keeper.look()
    keeper.finish()
    assert done == ["drain"]
    assert "end" not in cloud.done


def test_it_looks_by_itself_and_stops():
    cloud = Cloud()
    seen = threading.Event()
    keeper = Keeper(cloud, Watch(idle_s=0), drain=seen.set, hurry=seen.set, every_s=0.01)
    keeper.start()
    assert seen.wait(10)
    keeper.stop()
    keeper.stop()
