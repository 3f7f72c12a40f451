"""Credentials of one shard: bound to it, made again in time, and an end that is told apart from a refusal."""

from datetime import UTC, datetime, timedelta

import pytest

from mst.errors import BrokerError, RefusedError, StoreDenied, StoreExpired, StoreUnavailable
from mst.fleet import sessions as room
from mst.fleet.grants import GrantTarget, open_grant, verify
from mst.fleet.sessions import SessionStore, ShardSessions
from mst.fleet.signing import Verifier
from mst.model.base import digest_bytes
from mst.store.layout import RunKeys
from mst.store.memory import MemoryStore

from .conftest import RUN

TARGET = GrantTarget(RUN, "d1", "grade", "team-a")
KEYS = RunKeys("team-a", RUN).dispatch("d1")


class Slots:
    """The part of `GrantSlots` that is used, without Redis."""

    def __init__(self):
        self.sealed, self.away = {}, False

    def put(self, target, sealed, *, issue, forget_at):
        self.sealed.setdefault(target.slot, {})[issue] = sealed

    def newest(self, target, verifier):
        if self.away:
            raise BrokerError("away")
        good = [verify(sealed, target, verifier) for sealed in self.sealed.get(target.slot, {}).values()]
        return max(good, key=lambda one: one[0].issue, default=None)

    def next_issue(self, target, verifier):
        found = self.newest(target, verifier)
        return 1 if found is None else found[0].issue + 1

    def drop(self, target):
        self.sealed.pop(target.slot, None)


class Watched(MemoryStore):
    """A store that takes credentials until it is told that they are no good."""

    def __init__(self, values, refuse):
        super().__init__("x")
        self.values, self.refuse = values, refuse

    def get(self, key, *, max_bytes=0):
        why = self.refuse.get(self.values["KEY"])
        if why is not None:
            raise StoreDenied(why)
        return self.values["KEY"].encode()


@pytest.fixture
def slots():
    return Slots()


@pytest.fixture
def made():
    return []


@pytest.fixture
def sessions(slots, made, signing_key, fleet_key):
    def make(keys):
        made.append(keys.shard)
        return {"KEY": f"{keys.shard}-{len(made)}"}, datetime.now(UTC) + timedelta(hours=1)

    return ShardSessions(
        make=make, life=timedelta(hours=1), grants=slots, key=signing_key, recipients=fleet_key.recipients
    )


@pytest.fixture
def refuse():
    return {}


@pytest.fixture
def opened(slots, trusted, fleet_key, refuse):
    def run(shard=0):
        target = GrantTarget(RUN, "d1", "grade", "team-a", shard)
        return SessionStore(
            slots,
            target,
            verifier=Verifier(trusted),
            fleet_key=fleet_key,
            connect=lambda values: Watched(values, refuse),
        )

    return run


def test_each_shard_gets_its_own(sessions, opened, made):
    sessions.issue(TARGET, KEYS, range(5))
    assert sorted(made) == [0, 1, 2, 3, 4]
    assert [opened(shard).get("k").partition(b"-")[0] for shard in range(5)] == [b"0", b"1", b"2", b"3", b"4"]


def test_what_is_sealed_for_one_shard_opens_for_no_other(sessions, slots, trusted, fleet_key):
    sessions.issue(TARGET, KEYS, [0, 1])
    zero, one = (GrantTarget(RUN, "d1", "grade", "team-a", shard) for shard in (0, 1))
    slots.sealed[one.slot] = slots.sealed[zero.slot]
    with pytest.raises(RefusedError, match="another dispatch"):
        slots.newest(one, Verifier(trusted))
    grant, blob = slots.newest(zero, Verifier(trusted))
    moved = grant.model_copy(update={"shard": 1, "sha256": digest_bytes(blob)})
    with pytest.raises(RefusedError, match="another grant"):
        open_grant(moved, blob, fleet_key, now=datetime.now(UTC))


def test_they_are_made_again_at_half_their_life(sessions, made):
    sessions.tend(TARGET, KEYS, [0, 1])
    sessions.tend(TARGET, KEYS, [0, 1])
    assert len(made) == 2
    sessions._made_at -= timedelta(minutes=31)
    sessions.tend(TARGET, KEYS, [0, 1])
    assert len(made) == 4


def test_a_token_service_that_fails_does_not_end_the_coordinator(sessions, made):
    def fail(keys):
        raise StoreUnavailable("no answer")

    make, sessions.make = sessions.make, fail
    sessions.tend(TARGET, KEYS, [0])
    sessions.make = make
    sessions.tend(TARGET, KEYS, [0])
    assert made == [0]


def test_a_worker_goes_on_with_newer_ones(sessions, opened, refuse):
    sessions.issue(TARGET, KEYS, [0])
    store = opened()
    assert store.get("k") == b"0-1"
    refuse["0-1"] = "the credentials have expired (ExpiredToken)"
    sessions.issue(TARGET, KEYS, [0])
    assert store.get("k") == b"0-2"


def test_a_worker_looks_for_newer_ones_before_its_own_end(sessions, opened):
    sessions.issue(TARGET, KEYS, [0])
    store = opened()
    sessions.issue(TARGET, KEYS, [0])
    assert store.get("k") == b"0-1"
    store._renew_at = datetime.now(UTC)
    assert store.get("k") == b"0-2"


def test_an_end_without_newer_ones_is_no_refusal(sessions, opened, refuse, slots):
    sessions.issue(TARGET, KEYS, [0])
    store = opened()
    refuse["0-1"] = "the credentials have expired (ExpiredToken)"
    with pytest.raises(StoreExpired, match="no coordinator made new ones"):
        store.get("k")
    slots.away = True
    with pytest.raises(StoreExpired):
        store.get("k")
    slots.away = False
    refuse["0-1"] = "the policy says no"
    with pytest.raises(StoreDenied, match="policy") as caught:
        store.get("k")
    assert not isinstance(caught.value, StoreExpired)


def test_a_broker_that_is_away_takes_nothing_from_a_shard_that_runs(sessions, opened, slots):
    sessions.issue(TARGET, KEYS, [0])
    store = opened()
    slots.away, store._renew_at = True, datetime.now(UTC)
    assert store.get("k") == b"0-1"


def test_without_any_nothing_begins(opened, sessions):
    with pytest.raises(StoreExpired, match="no credentials for the store"):
        opened()
    sessions.issue(TARGET, KEYS, [0])
    sessions.drop(TARGET, [0])
    with pytest.raises(StoreExpired):
        opened()


def test_what_is_made_is_shown_nowhere(sessions):
    assert "make" not in repr(sessions)
    assert room.ShardSessions.__dataclass_fields__["make"].repr is False
