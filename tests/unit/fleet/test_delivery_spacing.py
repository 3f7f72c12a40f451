"""How often a shard's attempt tells the ledger of its units: quick ones together."""

import pytest

from mst.fleet import delivery as module
from mst.fleet.delivery import Delivery
from mst.fleet.ledger_keys import unit_token
from mst.model.fleet import ShardRef
from mst.model.keys import TrialKey
from mst.shards.contract import UnitDone
from mst.store.layout import RunKeys
from mst.store.memory import MemoryStore

RUN = "20260101T000000Z-abcdef"
KEYS = [TrialKey(variant="a", case_id=f"c{number}", trial=0) for number in range(5)]
TOKENS = [unit_token(key) for key in KEYS]


@pytest.fixture
def delivery(ledger):
    shard = RunKeys("e", RUN).dispatch("d1").shard(0)
    ref = ShardRef(run_id=RUN, dispatch="d1", work="grade", shard=0)
    return Delivery(MemoryStore("m"), shard, ledger, ref, "1-" + "a" * 16, done=0, heed=lambda _outcome: None)


def give(delivery, folder, number):
    path = folder / f"{number}.json"
    path.write_text("{}")
    delivery.take(UnitDone(shard=0, key=KEYS[number], status="graded"), [path])


def test_a_unit_alone_is_told_at_once(delivery, ledger):
    delivery.started(KEYS[0])
    assert ledger.told == [(0, [TOKENS[0]], [])]


def test_units_that_follow_quickly_are_told_together(delivery, ledger, tmp_path, monkeypatch):
    monkeypatch.setattr(module, "SPACING_S", 3600.0)
    with delivery:
        for number in range(4):
            delivery.started(KEYS[number])
            if number < 3:
                give(delivery, tmp_path, number)
        assert ledger.told == [(0, [TOKENS[0]], [])]
    # the second and third began and ended unheard of; the fourth is still in flight
    assert ledger.told[1:] == [(3, [TOKENS[3]], [TOKENS[0]])]


def test_what_was_held_back_is_told_when_it_is_time(delivery, ledger, monkeypatch):
    monkeypatch.setattr(module, "SPACING_S", 3600.0)
    delivery.started(KEYS[0])
    delivery.started(KEYS[1])
    delivery.tell()
    assert len(ledger.told) == 1
    monkeypatch.setattr(module, "SPACING_S", 0.0)
    delivery.tell()
    delivery.tell()
    assert ledger.told[1:] == [(0, [TOKENS[1]], [])]


def test_what_a_broker_did_not_hear_is_told_again(delivery, ledger, tmp_path, monkeypatch):
    monkeypatch.setattr(module, "SPACING_S", 0.0)
    ledger.away = True
    with delivery:
        delivery.started(KEYS[0])
        give(delivery, tmp_path, 0)
        delivery.started(KEYS[1])
        ledger.away = False
    assert ledger.told[-1][0] == 1
    assert TOKENS[1] in {token for _, started, _ in ledger.told for token in started}
    # the broker may have heard that it began, and only the answer was lost
    assert TOKENS[0] in {token for _, _, finished in ledger.told for token in finished}
