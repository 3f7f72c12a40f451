"""What is tried again, for how long, and what a lost reply means."""

import pytest

from mst.errors import ObjectMissing, PreconditionFailed, StoreDenied, StoreUnavailable
from mst.store.memory import MemoryStore
from mst.store.wrap import LONGEST_WAIT_S, Patience, PatientStore


class Clock:
    def __init__(self):
        self.now_s = 0.0
        self.waits = []

    def sleep(self, seconds):
        self.waits.append(seconds)
        self.now_s += seconds

    def patience(self, patience_s):
        return Patience(patience_s, sleep=self.sleep, clock=lambda: self.now_s, draw=lambda low, high: high)


class Flaky(MemoryStore):
    """Fails a number of calls, before or after they take effect."""

    def __init__(self):
        super().__init__("flaky")
        self.before = []
        self.after = []
        self.calls = 0
        self.takes = lambda: None

    def put(self, key, data, **more):
        self._fail()
        super().put(key, data, **more)

    def put_if_absent(self, key, data):
        self._fail()
        super().put_if_absent(key, data)

    def get(self, key, **more):
        self._fail()
        return super().get(key, **more)

    def _fail(self):
        self.calls += 1
        if self.before:
            self.takes()
            raise self.before.pop()

    def _write(self, key, data):
        super()._write(key, data)
        if self.after:
            raise self.after.pop()


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture
def inner():
    return Flaky()


@pytest.fixture
def store(inner, clock):
    return PatientStore(inner, clock.patience(60))


def test_a_store_that_comes_back_is_not_noticed(store, inner, clock):
    inner.before = [StoreUnavailable("down")] * 3
    store.put("a", b"x")
    assert inner.get("a") == b"x"
    assert clock.waits == [0.2, 0.4, 0.8]


def test_patience_ends_and_says_how_often_it_tried(inner, clock):
    store = PatientStore(inner, clock.patience(3600))
    inner.before = [StoreUnavailable("down")] * 10_000
    with pytest.raises(StoreUnavailable, match=r"down \(tried \d+ times in 3\d\d\d s\)"):
        store.get("a")
    assert clock.now_s <= 3600
    assert max(clock.waits) == LONGEST_WAIT_S
    assert inner.calls == len(clock.waits) + 1


@pytest.mark.parametrize("error", [StoreDenied("no"), ObjectMissing("none")])
def test_what_waiting_does_not_mend_is_not_tried_again(store, inner, clock, error):
    inner.before = [error]
    with pytest.raises(type(error)):
        store.get("a")
    assert clock.waits == []


def test_a_try_that_outlasts_all_patience_is_followed_by_another(store, inner, clock):
    """A server that took the request and says nothing: patience is for waiting, and nobody has waited yet."""
    inner.put("a", b"x")
    inner.before = [StoreUnavailable("silent")]
    inner.takes = lambda: clock.sleep(120)
    assert store.get("a") == b"x"
    inner.before = [StoreUnavailable("silent")] * 100
    inner.calls = 0
    with pytest.raises(StoreUnavailable, match=r"tried 2 times in 2\d\d s"):
        store.get("a")
    assert inner.calls == 2


def test_without_patience_nothing_is_tried_again(inner, clock):
    inner.before = [StoreUnavailable("down")]
    with pytest.raises(StoreUnavailable):
        PatientStore(inner, clock.patience(0)).put("a", b"x")
    assert inner.calls == 1


def test_a_create_whose_reply_was_lost_is_ours(store, inner):
    inner.after = [StoreUnavailable("reset")]
    store.put_if_absent("m", b"attempt 1")
    assert inner.get("m") == b"attempt 1"


def test_a_create_that_lost_its_race_while_in_doubt_is_not_ours(store, inner):
    inner.put("m", b"another's")
    inner.before = [StoreUnavailable("reset")]
    with pytest.raises(PreconditionFailed):
        store.put_if_absent("m", b"attempt 1")
    assert inner.get("m") == b"another's"


def test_the_same_bytes_already_there_are_another_writers_when_nothing_was_lost(store, inner):
    inner.put("m", b"same")
    with pytest.raises(PreconditionFailed):
        store.put_if_absent("m", b"same")


def test_a_replace_whose_reply_was_lost_is_ours(store, inner):
    inner.put("m", b"one")
    version = inner.head("m").version
    inner.after = [StoreUnavailable("reset")]
    store.replace_if_match("m", b"two", version)
    assert inner.get("m") == b"two"


def test_an_object_gone_while_in_doubt_is_a_lost_race(store, inner):
    inner.after = [StoreUnavailable("reset")]
    inner.head = lambda key: None
    with pytest.raises(PreconditionFailed):
        store.put_if_absent("m", b"x")


def test_a_listing_that_breaks_off_goes_on_and_gives_each_once(store, inner):
    for number in range(10):
        inner.put(f"a/{number}", b"x")
    whole = MemoryStore.list
    breaks = [3, 7]

    def broken(prefix):
        stop = breaks.pop(0) if breaks else None
        for count, info in enumerate(whole(inner, prefix)):
            if count == stop:
                raise StoreUnavailable("reset")
            yield info

    inner.list = broken
    found = [info.key for info in store.list("a")]
    assert sorted(found) == [f"a/{number}" for number in range(10)]


def test_a_listing_that_never_works_ends(store, inner, clock):
    def broken(prefix):
        raise StoreUnavailable("down")
        yield

    inner.list = broken
    with pytest.raises(StoreUnavailable, match="tried"):
        list(store.list("a"))
    assert clock.now_s <= 60


def test_a_wait_may_end_the_call(inner):
    class Drained(Exception):
        pass

    def sleep(_seconds):
        raise Drained

    inner.before = [StoreUnavailable("down")]
    with pytest.raises(Drained):
        PatientStore(inner, Patience(60, sleep=sleep)).get("a")


def test_a_call_that_is_tried_for_long_is_told_once_and_soon(clock):
    told = []
    patience = Patience(60, clock.sleep, lambda: clock.now_s, lambda low, high: high, told.append)
    flaky = Flaky()
    flaky.before = [StoreUnavailable("no answer")] * 6
    begun = []
    flaky.put = lambda key, data, **more: begun.append((clock.now_s, list(told))) or Flaky.put(flaky, key, data)
    PatientStore(flaky, patience).put("k", b"v")
    assert len(told) == 1
    assert told[0].startswith("no answer; trying again for up to 60 s - check")
    assert max(at for at, said in begun if not said) <= 2


def test_a_short_silence_is_told_to_nobody(clock):
    told, flaky = [], Flaky()
    flaky.before = [StoreUnavailable("no answer")] * 3
    PatientStore(flaky, Patience(60, clock.sleep, lambda: clock.now_s, lambda low, high: high, told.append)).put(
        "k", b""
    )
    assert told == []
