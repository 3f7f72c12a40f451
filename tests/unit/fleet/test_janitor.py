import threading
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace

from mst.fleet.janitor import Janitor
from mst.fleet.ledger_records import Head
from mst.fleet.ledger_states import Entry, Reply, State
from mst.model.fleet import ShardLimits
from mst.store.uri import open_store

HEAD = Head(
    run_id="20260101T000000Z-abc123.g1",
    dispatch="d1",
    work="grade",
    eval_name="quiz",
    queue="q",
    deadline=datetime.now(UTC) + timedelta(hours=1),
    limits=ShardLimits(),
    dispatch_uri="memory:x",
)
LAPSED = Entry(HEAD.terms, 3, State.RUNNING, n=1, attempt_id="1-" + "a" * 16, open=True, lease_until_ms=1)


def expired_in_looks(locks, *, settle_s):
    """What a janitor expires in as many turns as there are answers to its asking for the lock."""
    expired, answers, over = [], iter(locks), threading.Event()

    def lock(*_args, **_given):
        answer = next(answers, None)
        if answer is None:
            over.set()
        return bool(answer)

    def expire(ref, attempt):
        expired.append(attempt)
        return Reply("ignored")

    janitor = Janitor(
        owner="one",
        book=SimpleNamespace(
            open_dispatches=lambda: [HEAD.scope],
            head=lambda _scope: HEAD,
            now_ms=lambda: 1000,
            entries=lambda _head: [(0, LAPSED)],
        ),
        ledger=SimpleNamespace(expire=expire),
        presence=SimpleNamespace(lock=lock, unlock=lambda *_args: None, queue_idle_ms=lambda _queue: -1),
        store=open_store("memory:janitor"),
        send=lambda *_args: None,
        every_s=0.001,
        settle_s=settle_s,
    )
    janitor.start()
    assert over.wait(30)
    janitor.stop()
    return expired


def test_a_lease_that_ran_out_is_ended():
    assert expired_in_looks([True], settle_s=0.0) == [LAPSED.attempt_id]


def test_nothing_is_ended_soon_after_the_broker_first_answers():
    assert expired_in_looks([True, True], settle_s=3600.0) == []


def test_nor_when_another_had_the_lock_at_first():
    assert expired_in_looks([False, True, True], settle_s=3600.0) == []
