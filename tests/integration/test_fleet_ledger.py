"""The ledger, grants and presence on a real Valkey, also when it is killed."""

import threading
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta

import pytest

from mst.cli.cancelling import _cancel
from mst.errors import BrokerError
from mst.fleet.connect import connect
from mst.fleet.dispatch_book import DispatchBook
from mst.fleet.grants import SLOT_MAX_ISSUES, GrantSlots, GrantTarget, seal
from mst.fleet.in_flight import in_flight
from mst.fleet.keys import FleetKey, SigningKey
from mst.fleet.ledger import Ledger
from mst.fleet.ledger_records import EntrySeed, Head
from mst.fleet.ledger_states import State
from mst.fleet.overview import look
from mst.fleet.presence import Presence
from mst.fleet.refusals import RefusalBook
from mst.fleet.scale import read_signal
from mst.fleet.signing import Refusal, Verifier
from mst.model.fleet import Envelope, ShardLimits, Signed, TrustedSigners
from mst.testing.servers import valkey

pytestmark = pytest.mark.server

RUN = "20260501T120000Z-abc123"
ENVELOPE = Signed(payload={"x": 1}, key_id="0" * 16, signature="AAAA")
TOKEN = "a" * 16


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    with valkey(tmp_path_factory.mktemp("broker")) as running:
        yield running


@pytest.fixture
def client(server):
    client = connect(server.url)
    client.flushall()
    yield client
    client.close()


@pytest.fixture
def ledger(client):
    return Ledger(client)


@pytest.fixture
def book(client):
    return DispatchBook(client)


def make_head(dispatch="d1", **changes):
    fields = {
        "run_id": RUN,
        "dispatch": dispatch,
        "work": "grade",
        "eval_name": "e",
        "queue": "mst.grade.0.1.0",
        "deadline": datetime.now(UTC) + timedelta(hours=1),
        "limits": ShardLimits(lease_ttl_s=60),
        "dispatch_uri": "file:/store/e/dispatches",
    }
    return Head(**{**fields, **changes})


def seeds(count):
    return [EntrySeed(shard=number, units=4, envelope=ENVELOPE) for number in range(count)]


def states(book, head):
    return {shard: entry.state for shard, entry in book.entries(book.head(head.scope))}


def test_a_dispatch_is_written_read_and_written_again_without_loss(book, ledger):
    head = make_head()
    assert book.write_dispatch(head, seeds(250)) == 250
    assert book.head(head.scope) == head
    assert book.shards(head.scope) == list(range(250))
    assert book.envelope(head.ref(7)) == ENVELOPE
    ledger.acquire(head.ref(7), TOKEN, worker="w")
    assert book.write_dispatch(head, seeds(251)) == 1
    assert states(book, head) == {number: State.LEASED if number == 7 else State.QUEUED for number in range(251)}


def test_nothing_can_be_acquired_before_the_dispatch_is_wholly_written(ledger, book):
    head = make_head()
    assert ledger.acquire(head.ref(0), TOKEN, worker="w").answer == "unknown"

    def interrupted():
        yield from seeds(100)
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        book.write_dispatch(head, interrupted())
    assert ledger.acquire(head.ref(0), TOKEN, worker="w").answer == "unknown"
    assert book.open_dispatches() == []


def test_what_somebody_else_wrote_among_the_dispatches_hides_none_of_ours(book, client, server):
    head = make_head()
    book.write_dispatch(head, seeds(3))
    client.zadd("mst:dispatches", {"junk": 1e15, "../../etc": 1e15, "a.d1.grade": 1e15, "b.d1.grade": 1e15})
    client.hset("mst:{junk}:head", "x", "y")
    client.set("mst:{a.d1.grade}:head", "not a hash")
    other = make_head(dispatch="d2")
    book.write_dispatch(other, seeds(1))
    client.hset(book.keys.entry(other.scope, 0), "state", "odd")
    assert [one.dispatch for one in in_flight(book)] == ["d1"]
    assert [one.scope for one in look(client, [head.queue]).dispatches] == [head.scope]
    assert read_signal(client, [head.queue]).queued == 3
    assert _cancel(server.url, RUN)
    assert set(states(book, head).values()) == {State.CANCELLED}


def test_of_many_workers_one_gets_the_shard(book, ledger):
    head = make_head()
    book.write_dispatch(head, seeds(1))
    start = threading.Barrier(16)

    def race(number):
        start.wait()
        return ledger.acquire(head.ref(0), f"{number:016x}", worker=str(number)).answer

    with ThreadPoolExecutor(16) as pool:
        answers = list(pool.map(race, range(16)))
    assert sorted(answers) == ["granted"] + ["refused"] * 15


def test_redis_clock_ends_a_lease(book, ledger):
    head = make_head(limits=ShardLimits(lease_ttl_s=0.2))
    book.write_dispatch(head, seeds(1))
    ref = head.ref(0)
    first = ledger.acquire(ref, TOKEN, worker="w").attempt_id
    deadline = datetime.now(UTC) + timedelta(seconds=10)
    while ledger.expire(ref, first).answer != "queued":
        assert datetime.now(UTC) < deadline
        threading.Event().wait(0.02)
    second = ledger.acquire(ref, "b" * 16, worker="w")
    assert second.attempt_id == f"2-{'b' * 16}"
    assert ledger.renew(ref, first).answer == "lost"


def test_every_key_has_an_end(client, book, ledger):
    head = make_head()
    book.write_dispatch(head, seeds(2))
    ref = head.ref(0)
    attempt = ledger.acquire(ref, TOKEN, worker="w").attempt_id
    ledger.progress(ref, attempt, done=0, started=["0" * 24])
    ledger.expire(ref, attempt, died=True)
    ledger.cancel(ref, "user")
    presence = Presence(client)
    presence.announce("w", "q", ttl_s=60)
    presence.queue_idle_ms("q")
    presence.lock("janitor", "me", ttl_s=60)
    found = client.keys("*")
    assert len(found) >= 9
    assert [key for key in found if client.pttl(key) <= 0] == []
    assert all(key.startswith("mst:") for key in found)


def test_progress_is_told_in_order_and_can_be_followed(book, ledger):
    head = make_head()
    book.write_dispatch(head, seeds(2))
    ref = head.ref(1)
    attempt = ledger.acquire(ref, TOKEN, worker="w").attempt_id
    ledger.start(ref, attempt)
    ledger.progress(ref, attempt, done=1)
    first = book.events(head.scope)
    assert [(one.event, one.shard, one.state.value, one.done) for one in first] == [
        ("acquire", 1, "leased", 0),
        ("start", 1, "running", 0),
        ("progress", 1, "running", 1),
    ]
    assert book.events(head.scope, after=first[-1].id, wait_s=0.01) == []
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(book.events, head.scope, after=first[-1].id, wait_s=10)
        ledger.mark_committed(ref, done=4)
        (last,) = waiting.result()
    assert (last.event, last.done) == ("commit", 4)


def test_cancel_flags_the_whole_dispatch(book, ledger):
    head = make_head()
    book.write_dispatch(head, seeds(3))
    attempt = ledger.acquire(head.ref(0), TOKEN, worker="w").attempt_id
    ledger.mark_committed(head.ref(2), done=4)
    outcomes = book.cancel(head, "user")
    assert {shard: one.answer for shard, one in outcomes.items()} == {0: "pending", 1: "cancelled", 2: "ignored"}
    assert ledger.renew(head.ref(0), attempt).cancel == "user"
    assert ledger.finish(head.ref(0), attempt, "cancelled", "user").answer == "yes"
    assert states(book, head) == {0: State.CANCELLED, 1: State.CANCELLED, 2: State.COMMITTED}


def test_a_closed_dispatch_grants_nothing_and_janitors_leave_it(book, ledger):
    head = make_head()
    book.write_dispatch(head, seeds(1))
    assert book.open_dispatches() == [head.scope]
    book.close_dispatch(head.scope)
    assert book.open_dispatches() == []
    assert ledger.acquire(head.ref(0), TOKEN, worker="w").why == "closed"


@pytest.mark.parametrize("reason", ["drain", "crashed"])
def test_progress_of_an_attempt_that_is_given_back_resets_the_idle_count(book, ledger, reason):
    head = make_head()
    book.write_dispatch(head, seeds(1))
    ref = head.ref(0)
    for number in (1, 2):
        attempt = ledger.acquire(ref, f"{number:016x}", worker="w").attempt_id
        ledger.give_back(ref, attempt, "crashed")
    attempt = ledger.acquire(ref, TOKEN, worker="w").attempt_id
    ledger.progress(ref, attempt, done=1)
    ledger.give_back(ref, attempt, reason)
    ((_, entry),) = book.entries(book.head(head.scope))
    assert (entry.idle, entry.lost) == (0, 2 if reason == "drain" else 3)


def test_a_cancelled_shard_forgets_its_units_in_flight(book, ledger):
    head = make_head(limits=ShardLimits(lease_ttl_s=0.2))
    book.write_dispatch(head, seeds(1))
    ref = head.ref(0)
    attempt = ledger.acquire(ref, TOKEN, worker="w").attempt_id
    ledger.progress(ref, attempt, done=0, started=["0" * 24])
    deadline = datetime.now(UTC) + timedelta(seconds=10)
    while ledger.cancel(ref, "user").answer != "cancelled":
        assert datetime.now(UTC) < deadline
        threading.Event().wait(0.02)
    ((_, entry),) = book.entries(book.head(head.scope))
    assert (entry.open, entry.in_flight, entry.lease_until_ms) == (False, frozenset(), 0)


def test_a_shard_that_waits_for_a_token_is_not_given_up_before_its_deadline(book, ledger):
    head = make_head(limits=ShardLimits(idle_attempts=1, attempts=1, lease_ttl_s=60))
    book.write_dispatch(head, seeds(1))
    ref = head.ref(0)
    attempt = ledger.acquire(ref, TOKEN, worker="w").attempt_id
    ledger.start(ref, attempt)
    ledger.give_back(ref, attempt, "waiting_token")
    assert ledger.give_up(ref).answer == "ignored"
    assert ledger.requeue(ref).answer == "queued"


def test_wrong_kinds_of_value_are_an_error_and_not_an_answer(client, ledger):
    client.set("mst:{" + make_head().scope + "}:head", "text")
    with pytest.raises(BrokerError, match="ledger, acquire of"):
        ledger.acquire(make_head().ref(0), TOKEN, worker="w")


def test_a_killed_broker_comes_back_with_the_whole_ledger(server, book, ledger):
    head = make_head()
    book.write_dispatch(head, seeds(20))
    attempts = {}
    for shard in range(10):
        attempts[shard] = ledger.acquire(head.ref(shard), TOKEN, worker="w").attempt_id
        ledger.start(head.ref(shard), attempts[shard])
        ledger.progress(head.ref(shard), attempts[shard], done=shard % 4, started=["1" * 24])
    ledger.mark_committed(head.ref(19), done=4)
    before = list(book.entries(book.head(head.scope)))
    server.kill()
    with pytest.raises(BrokerError, match="does not answer"):
        ledger.renew(head.ref(0), attempts[0])
    server.start()
    assert list(book.entries(book.head(head.scope))) == before
    assert ledger.renew(head.ref(0), attempts[0]).answer == "yes"
    assert ledger.acquire(head.ref(0), "c" * 16, worker="other").why == "leased"
    assert book.envelope(head.ref(3)) == ENVELOPE


def test_a_wiped_broker_is_rebuilt_and_the_running_attempt_goes_on(client, book, ledger):
    head = make_head()
    book.write_dispatch(head, seeds(3))
    attempt = ledger.acquire(head.ref(0), TOKEN, worker="w").attempt_id
    client.flushall()
    assert ledger.renew(head.ref(0), attempt).answer == "unknown"
    rebuilt = [
        EntrySeed(shard=0, units=4, envelope=ENVELOPE, attempt_floor=1, done=2),
        EntrySeed(shard=1, units=4, envelope=ENVELOPE, attempt_floor=5, done=1),
        EntrySeed(shard=2, units=4, envelope=ENVELOPE, attempt_floor=1, done=4, committed=True),
    ]
    book.write_dispatch(head, rebuilt)
    assert ledger.renew(head.ref(0), attempt).answer == "revived"
    assert ledger.acquire(head.ref(1), TOKEN, worker="w").attempt_id == f"6-{TOKEN}"
    assert ledger.acquire(head.ref(2), TOKEN, worker="w").why == "committed"


class TestPresence:
    def test_a_worker_counts_until_its_time_is_over(self, client):
        presence = Presence(client)
        presence.announce("long", "q", ttl_s=60)
        presence.announce("short", "q", ttl_s=0.05)
        deadline = datetime.now(UTC) + timedelta(seconds=10)
        while presence.workers("q") != ["long"]:
            assert datetime.now(UTC) < deadline
        presence.leave("long", "q")
        assert presence.workers("q") == []

    def test_an_empty_queue_is_timed_from_the_first_look(self, client):
        presence = Presence(client)
        assert presence.queue_idle_ms("q") == 0
        deadline = datetime.now(UTC) + timedelta(seconds=10)
        while presence.queue_idle_ms("q") < 20:
            assert datetime.now(UTC) < deadline
        client.rpush("mst:q", "x")
        assert presence.queue_idle_ms("q") == -1
        client.delete("mst:q")
        assert presence.queue_idle_ms("q") < 20

    def test_one_owner_at_a_time_holds_a_lock(self, client):
        presence = Presence(client)
        assert presence.lock("janitor", "a", ttl_s=60)
        assert presence.lock("janitor", "a", ttl_s=60)
        assert not presence.lock("janitor", "b", ttl_s=60)
        presence.unlock("janitor", "b")
        assert not presence.lock("janitor", "b", ttl_s=60)
        presence.unlock("janitor", "a")
        assert presence.lock("janitor", "b", ttl_s=60)


class TestRefusals:
    def test_what_can_be_mended_is_told_of_a_dispatch_that_is_there_and_of_no_other(self, client):
        place = f"file:/store/e/dispatches/{RUN}/d1"
        envelope = Envelope(
            run_id=RUN,
            dispatch="d1",
            work="grade",
            shard=0,
            count=1,
            eval_name="e",
            queue="q",
            bundle_uri=f"{place}/bundles/{'a' * 64}",
            bundle_sha256="a" * 64,
            bundle_digest="b" * 64,
            results_uri=f"{place}/shards/0",
            limits=ShardLimits(),
            deadline=datetime.now(UTC),
            mst="0.1.0",
            key_id="0" * 16,
        )
        refusals, scope = RefusalBook(client), envelope.ref.scope
        signed = Signed(payload=envelope.to_dict(), key_id="0" * 16, signature="AAAA")
        refusals.note(signed, worker="w1", error=Refusal("place", "elsewhere"))
        assert client.keys("*refused*") == [], "this broker knows of no such dispatch"
        client.hset(f"mst:{{{scope}}}:head", "any", "thing")
        refusals.note(signed, worker="w1", error=Refusal("signature", "nobody can mend that"))
        refusals.note(ENVELOPE, worker="w1", error=Refusal("place", "this is no envelope"))
        assert client.keys("*refused*") == []
        refusals.note(signed, worker="w1", error=Refusal("place", "elsewhere"))
        # anyone may write to Redis
        client.xadd(f"mst:{{{scope}}}:refused", {"refused": "no JSON"})
        client.xadd(f"mst:{{{scope}}}:refused", {"other": "x"})
        refusals.note(signed, worker="w2", error=Refusal("place", "elsewhere"))
        last, found = refusals.after(scope, "0-0")
        assert [(one.worker, one.kind, one.shard) for one in found] == [("w1", "place", 0), ("w2", "place", 0)]
        assert refusals.after(scope, last) == (last, [])


class TestGrantSlots:
    @pytest.fixture
    def parts(self):
        signing = SigningKey.generate()
        trusted = TrustedSigners(signers=[signing.entry(evals=["*"], queues=["*"])])
        target = GrantTarget(run_id=RUN, dispatch="d1", work="grade", eval_name="e")
        return signing, FleetKey.generate(), Verifier(trusted), target

    def put(self, slots, parts, issue, **changes):
        signing, fleet, _, target = parts
        until = datetime.now(UTC) + timedelta(hours=1)
        options = {"issue": issue, "expires_at": until, "recipients": fleet.recipients, "key": signing}
        slots.put(target, seal(target, {"K": f"v{issue}"}, **{**options, **changes}), issue=issue, forget_at=until)

    def test_the_highest_good_issue_wins(self, client, parts):
        slots, (_, _, verifier, target) = GrantSlots(client, "mst:"), parts
        assert slots.newest(target, verifier) is None
        for issue in range(1, 12):
            assert slots.next_issue(target, verifier) == issue
            self.put(slots, parts, issue)
        assert slots.newest(target, verifier)[0].issue == 11
        assert client.hlen("mst:" + target.slot) == 3
        assert 0 < client.pttl("mst:" + target.slot) <= 3_600_000

    def test_a_writer_to_redis_can_put_nothing_in_front(self, client, parts):
        slots, (_, _, verifier, target) = GrantSlots(client, "mst:"), parts
        self.put(slots, parts, 1)
        self.put(slots, (SigningKey.generate(), *parts[1:]), 2)
        client.hset("mst:" + target.slot, "999", "{}")
        client.hset("mst:" + target.slot, "1000", "not JSON")
        assert slots.newest(target, verifier)[0].issue == 1

    def test_a_slot_holds_as_many_records_as_are_looked_at_and_with_one_more_none_counts(self, client, parts):
        slots, (_, _, verifier, target) = GrantSlots(client, "mst:"), parts
        self.put(slots, parts, 1)
        for number in range(1, SLOT_MAX_ISSUES):
            client.hset("mst:" + target.slot, str(100 + number), "{}")
        assert client.hlen("mst:" + target.slot) == SLOT_MAX_ISSUES
        assert slots.newest(target, verifier)[0].issue == 1
        client.hset("mst:" + target.slot, "100", "{}")
        assert slots.newest(target, verifier) is None

    def test_a_new_issue_takes_away_all_that_a_slot_can_hold_but_the_last_three(self, client, parts):
        slots, (_, _, _, target) = GrantSlots(client, "mst:"), parts
        issue = SLOT_MAX_ISSUES + 2
        for number in range(1, issue):
            client.hset("mst:" + target.slot, str(number), "{}")
        self.put(slots, parts, issue)
        # what is older than a slot can hold was taken away by an issue before
        assert sorted(map(int, client.hkeys("mst:" + target.slot))) == [1, issue - 2, issue - 1, issue]

    def test_dropped_grants_are_gone(self, client, parts):
        slots, (_, _, verifier, target) = GrantSlots(client, "mst:"), parts
        self.put(slots, parts, 1)
        slots.drop(target)
        slots.drop(target)
        assert slots.newest(target, verifier) is None
        assert client.keys("*grant*") == []
