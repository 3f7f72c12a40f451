"""When a coordinator says that nobody takes what it sent."""

from dataclasses import replace

import pytest

from mst.fleet.ledger_states import Entry, State, Terms
from mst.fleet.service import SAY_AFTER_S, ServiceWatch

QUEUED = Entry(terms=Terms(deadline_ms=10**15, lease_ttl_ms=2000), units=3)
RUNNING = replace(QUEUED, state=State.RUNNING, n=1)
DONE = replace(QUEUED, state=State.COMMITTED, n=1)
NOBODY = "2 shards wait: no worker serves the queue q; start one"


class Desk:
    def __init__(self):
        self.workers, self.resting, self.pools, self.said, self.now = [], {}, [], [], 100.0
        self.watch = ServiceWatch(
            queue="q",
            workers=lambda: self.workers,
            resting=lambda names: {name: why for name, why in self.resting.items() if name in names},
            pools=lambda: self.pools,
            start="start one",
            say=self.said.append,
            clock=lambda: self.now,
        )

    def wait(self, *entries, for_s=SAY_AFTER_S):
        """What is said within this time."""
        before = len(self.said)
        for _ in range(2):
            self.watch.look(dict(enumerate(entries or (QUEUED, QUEUED))))
            self.now += for_s
        self.now -= for_s
        return self.said[before:]


def test_nobody_is_said_after_a_short_while_and_once():
    desk = Desk()
    assert desk.wait(for_s=SAY_AFTER_S - 0.1) == []
    assert desk.wait(for_s=0.1) == [NOBODY]
    assert desk.wait() == []


def test_a_moment_without_workers_is_not_said():
    desk = Desk()
    desk.wait(for_s=1)
    desk.workers = ["w1"]
    assert desk.wait() == []
    desk.workers = []
    assert desk.wait(for_s=SAY_AFTER_S - 0.1) == []


def test_that_somebody_serves_it_again_is_said_and_so_is_the_next_time():
    desk = Desk()
    desk.wait()
    desk.workers = ["w1", "w2"]
    assert desk.wait() == ["the queue q is served now: 2 workers"]
    desk.workers = []
    assert desk.wait(QUEUED, DONE) == ["1 shard waits: no worker serves the queue q; start one"]


def test_it_is_said_also_when_they_took_every_shard_at_once():
    desk = Desk()
    desk.wait()
    desk.workers = ["w1"]
    assert desk.wait(RUNNING, DONE) == ["the queue q is served now: 1 worker"]
    assert desk.wait(DONE, DONE) == []


@pytest.mark.parametrize("entries", [(RUNNING, DONE), (replace(QUEUED, state=State.WAITING_TOKEN),), (DONE, DONE)])
def test_where_no_shard_waits_for_a_worker_nothing_is_said(entries):
    desk = Desk()
    assert desk.wait(*entries) == []
    desk.wait()
    assert desk.wait(*entries) == [], "nor that somebody serves it, when nobody does"


def test_what_is_left_waits_although_others_run():
    assert Desk().wait(QUEUED, RUNNING) == ["1 shard waits: no worker serves the queue q; start one"]


def test_workers_that_all_rest_are_counted_with_the_reason_of_one():
    desk = Desk()
    desk.workers, desk.resting = ["w2", "w1"], {"w1": "full", "w2": "fuller"}
    said = "2 shards wait: 2 workers of the queue q take none now (w1: full); make room there, or start one"
    assert desk.wait() == [said]
    desk.resting = {"w1": "fullest", "w2": "fuller"}
    assert desk.wait() == [], "figures change every second"
    desk.workers = ["w1"]
    assert desk.wait() == [
        "2 shards wait: 1 worker of the queue q takes none now (w1: fullest); make room there, or start one"
    ]
    desk.resting = {}
    assert desk.wait() == ["the queue q is served now: 1 worker"]


def test_one_that_takes_shards_is_enough():
    desk = Desk()
    desk.workers, desk.resting = ["w1", "w2"], {"w1": "full"}
    assert desk.wait() == []


def test_a_pool_that_starts_workers_is_named():
    desk = Desk()
    desk.pools = ["gpu"]
    assert desk.wait() == ["2 shards wait: no worker serves the queue q now; the pool gpu starts one for it"]
    desk.pools = []
    assert desk.wait() == [NOBODY]
