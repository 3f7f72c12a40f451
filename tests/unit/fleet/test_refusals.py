"""When a coordinator may say that nobody takes its work, and when it may not."""

from dataclasses import replace

import pytest

from mst.fleet.ledger_states import Entry, State, Terms
from mst.fleet.refusals import SEND_AGAIN_MAX_S, RefusalWatch, Refused

DIGEST = "d" * 64
QUEUED = Entry(terms=Terms(deadline_ms=10**15, lease_ttl_ms=2000), units=3)


class Book:
    """Refusals as a coordinator reads them."""

    def __init__(self):
        self.lines = []

    def refuse(self, worker, *, sha256=DIGEST, kind="signer", shard=0):
        refused = Refused(worker=worker, machine="host", kind=kind, reason="why", shard=shard, sha256=sha256)
        self.lines.append(refused)

    def after(self, scope, place):
        start = int(place.partition("-")[0])
        return f"{len(self.lines)}-0", self.lines[start:]


class Desk:
    def __init__(self, *workers, old=False):
        self.book, self.workers, self.sent, self.said = Book(), list(workers), [], []
        self.watch = RefusalWatch(
            book=self.book,
            scope="s",
            digest_of=lambda shard: DIGEST if shard in (0, 1) else None,
            workers=lambda: self.workers,
            send_again=self.sent.append,
            say=self.said.append,
            queue="mst.grade.0.1.0",
            old=old,
        )

    def look(self, *entries):
        return self.watch.look(dict(enumerate(entries or (QUEUED, QUEUED))))


def test_it_is_over_when_every_worker_that_serves_refused():
    desk = Desk("w1", "w2")
    assert desk.look() is None
    desk.book.refuse("w1")
    assert desk.look() is None
    desk.book.refuse("w2")
    why = desk.look()
    assert why.startswith("every worker of the queue mst.grade.0.1.0 refuses this work. worker w1 on host refuses")
    assert "(and 1 more alike)" in why
    assert "MST_TRUSTED_SIGNERS_FILE" in why


def test_each_worker_is_said_once_and_its_message_goes_to_another():
    desk = Desk("w1", "w2")
    desk.book.refuse("w1", shard=1)
    desk.look()
    desk.look()
    assert desk.said == ["worker w1 on host refuses this work: why"]
    assert desk.sent == [1]


def test_sending_again_waits_longer_each_time(monkeypatch):
    desk, now = Desk("w1", "w2"), [100.0]
    monkeypatch.setattr("mst.fleet.refusals.time.monotonic", lambda: now[0])
    waits = []
    for _ in range(8):
        before, count = now[0], len(desk.sent)
        desk.book.refuse("w1")
        while len(desk.sent) == count:
            desk.look()
            now[0] += 0.5
        waits.append(now[0] - before)
    assert waits == sorted(waits)
    assert waits[-1] <= SEND_AGAIN_MAX_S + 1


@pytest.mark.parametrize(
    "entry",
    [
        replace(QUEUED, state=State.RUNNING, n=1),
        replace(QUEUED, state=State.LEASED, n=1),
        replace(QUEUED, state=State.COMMITTED),
        replace(QUEUED, n=1),
    ],
)
def test_work_that_somebody_took_is_not_given_up(entry):
    desk = Desk("w1")
    desk.book.refuse("w1")
    assert desk.look(QUEUED, entry) is None
    assert desk.sent == [0], "what is refused and waits is sent to the others all the same"


@pytest.mark.parametrize("state", [state for state in State if state is not State.QUEUED])
def test_only_what_waits_is_sent_again(state):
    desk = Desk("w1", "w2")
    desk.book.refuse("w1", shard=0)
    desk.book.refuse("w1", shard=1)
    assert desk.look(replace(QUEUED, state=state), QUEUED) is None
    assert desk.sent == [1]


def test_a_shard_without_an_entry_is_not_sent_again():
    desk = Desk("w1", "w2")
    desk.book.refuse("w1", shard=1)
    assert desk.look(QUEUED) is None
    assert desk.sent == []


def test_refusals_of_what_was_never_sent_count_for_nothing():
    desk = Desk("w1")
    desk.book.refuse("w1", sha256="f" * 64)
    desk.book.refuse("w1", shard=7)
    assert desk.look() is None
    assert (desk.said, desk.sent) == ([], [])


def test_a_queue_that_nobody_serves_now_is_waited_for():
    desk = Desk()
    desk.book.refuse("w1")
    assert desk.look() is None


def test_what_was_refused_before_a_coordinator_came_is_tried_again():
    desk = Desk("w1", old=True)
    desk.book.refuse("w1")
    assert desk.look() is None
    assert (desk.said, desk.sent) == ([], [0])
    desk.book.refuse("w1")
    assert desk.look() is not None


def test_a_worker_that_is_named_after_its_machine_is_named_once():
    refused = Refused(worker="host-7", machine="host", kind="place", reason="why", shard=0, sha256=DIGEST)
    assert refused.line == "worker host-7 refuses this work: why"
