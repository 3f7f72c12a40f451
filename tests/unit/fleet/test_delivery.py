"""What the ledger is told of units on their way to the store."""

import threading

import pytest

from mst.errors import StoreDenied
from mst.fleet.delivery import Delivery
from mst.fleet.ledger_keys import unit_token
from mst.model.fleet import ShardRef
from mst.model.keys import TrialKey
from mst.shards.contract import UnitDone
from mst.store.layout import RunKeys
from mst.store.memory import MemoryStore
from mst.testing.commandline import until

RUN = "20260101T000000Z-abcdef"
SHARD = RunKeys("e", RUN).dispatch("d1").shard(0)
KEYS = [TrialKey(variant="a", case_id=f"c{number}", trial=0) for number in range(5)]


class Gated(MemoryStore):
    """Takes nothing while the gate is closed; refuses when told to."""

    def __init__(self):
        super().__init__("gated")
        self.gate, self.refuses = threading.Event(), False
        self.gate.set()

    def put(self, key, data, *, sha256=None):
        self.gate.wait(30)
        if self.refuses:
            raise StoreDenied("no")
        super().put(key, data, sha256=sha256)


@pytest.fixture(autouse=True)
def told_at_once(monkeypatch):
    """See test_delivery_spacing.py for how often."""
    monkeypatch.setattr("mst.fleet.delivery.SPACING_S", 0.0)


@pytest.fixture
def store():
    return Gated()


@pytest.fixture
def delivery(store, ledger, monkeypatch):
    monkeypatch.setattr("mst.fleet.delivery.SPACING_S", 0.0)
    ref = ShardRef(run_id=RUN, dispatch="d1", work="grade", shard=0)
    return Delivery(store, SHARD, ledger, ref, "1-a", done=3, heed=lambda _outcome: None)


def end(delivery, folder, key):
    path = folder / f"{key.case_id}.json"
    path.write_bytes(b"unit")
    delivery.take(UnitDone(shard=0, key=key, status="graded", passed=None), [path])


def tokens(*keys):
    return [unit_token(key) for key in keys]


def test_units_are_done_when_they_are_stored(delivery, ledger, store, tmp_path):
    store.gate.clear()
    with delivery:
        end(delivery, tmp_path, KEYS[0])
        assert ledger.told == []
        assert not delivery.has_stored(KEYS[0])
        store.gate.set()
        until(lambda: delivery.has_stored(KEYS[0]), "it is stored")
    assert ledger.told[-1][0] == 4
    assert ledger.finished == tokens(KEYS[0])
    assert delivery.paths == {"units/c0.json"}


def test_a_unit_that_ended_is_not_in_flight_when_the_next_one_takes_the_worker_down(delivery, ledger, store, tmp_path):
    store.gate.clear()
    with delivery:
        delivery.started(KEYS[0])
        end(delivery, tmp_path, KEYS[0])
        delivery.started(KEYS[1])
        assert ledger.told == [(3, tokens(KEYS[0]), []), (3, tokens(KEYS[1]), tokens(KEYS[0]))]
        store.gate.set()


def test_what_a_broker_that_was_away_missed_is_told_with_the_next(delivery, ledger, tmp_path):
    ledger.away = True
    with delivery:
        for key in KEYS[:3]:
            end(delivery, tmp_path, key)
        until(lambda: all(delivery.has_stored(key) for key in KEYS[:3]), "they are stored")
        ledger.away = False
        delivery.started(KEYS[3])
    assert ledger.told[-1][0] == 6
    assert sorted(ledger.finished) == sorted(tokens(*KEYS[:3]))


def test_a_store_that_refuses_ends_the_delivery(delivery, ledger, store, tmp_path):
    store.refuses = True
    with delivery:
        end(delivery, tmp_path, KEYS[0])
        until(lambda: delivery.error is not None, "it fails")
        with pytest.raises(StoreDenied):
            end(delivery, tmp_path, KEYS[1])
    assert {done for done, _, _ in ledger.told} <= {3}
    assert not delivery.has_stored(KEYS[0])
