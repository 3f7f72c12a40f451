"""What `mst fleet status` tells people."""

import time
from datetime import UTC, datetime, timedelta

import pytest

from mst.fleet.overview import OpenDispatch, Overview, lines
from mst.fleet.scale import Signal

NOW = datetime(2026, 3, 1, 12, 0, 0, 123456, tzinfo=UTC)


@pytest.fixture(autouse=True)
def _clock(monkeypatch):
    """This machine stands two hours east."""
    monkeypatch.setenv("TZ", "XXX-2")
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()


def dispatch(**changes):
    fields = {
        "scope": "r.d1.grade",
        "eval_name": "e",
        "queue": "q",
        "deadline": (NOW + timedelta(hours=3, minutes=20)).isoformat(),
        "shards": {"queued": 2},
        "units": 9,
        "done": 3,
        "lapsed": 0,
        "cancel": "",
        "trouble": [],
    }
    return OpenDispatch(**{**fields, **changes})


def told(*dispatches, resting=None, **signal):
    found = Overview(signal=Signal(**signal), workers={"q": ["w1"]}, resting=resting or {}, dispatches=list(dispatches))
    return lines(found, now=NOW)


def test_a_deadline_is_told_by_the_clock_on_the_wall_and_how_far_off_it_is():
    assert told(dispatch())[-1] == (
        "r.d1.grade (e): 2 queued; 3 of 9 units; until 2026-03-01 17:20, for 3 h 20 min more"
    )
    late = dispatch(deadline=(NOW - timedelta(minutes=5)).isoformat())
    assert told(late)[-1].endswith("3 of 9 units; its deadline passed 5 min ago (2026-03-01 13:55)")


def test_how_long_shards_wait_is_told_when_some_do():
    assert told(queued=1, running=2, oldest_wait_s=700.4)[0] == "1 shard queued (for up to 11 min), 2 running"
    assert told(running=1)[0] == "0 shards queued, 1 running"


def test_a_worker_that_rests_is_told_with_the_reason():
    assert told(resting={"w1": "0 GiB are free"})[1:] == ["q: w1", "w1 takes no shards: 0 GiB are free"]


def test_leases_that_ran_out_are_counted():
    assert told(dispatch(lapsed=1))[-1].startswith("  1 lease has run out: ")
    assert told(dispatch(lapsed=2))[-1].startswith("  2 leases have run out: ")
