"""The ledger's moves, at random: first the pure machine, then Redis beside it, which must say and hold the same."""

import itertools
import random
import tempfile
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from mst.errors import BrokerError
from mst.fleet import ledger_machine
from mst.fleet import ledger_states as ls
from mst.fleet.connect import connect
from mst.fleet.dispatch_book import DispatchBook
from mst.fleet.ledger import Ledger
from mst.fleet.ledger_machine import decide, is_past_limit
from mst.fleet.ledger_records import EntrySeed, Head
from mst.fleet.ledger_states import FINAL, Entry, Reply, State, Terms
from mst.model.fleet import ShardLimits, ShardRef, Signed
from mst.testing.brokerproxy import broker_proxy
from mst.testing.servers import valkey

UNITS = 6
TOKENS = [character * 16 for character in "abc"]
UNIT_TOKENS = [f"{number:024x}" for number in range(UNITS)]
REASONS = ["drain", "preempted", "store", "incompatible", "waiting_token", "crashed", "silence", "out_of_memory"]
NOW = 2_000_000_000_000
HOUR_MS = 3_600_000

FAULTS = [None] * 24 + ["cut", "delay"] * 2 + ["lost-answer", "twice"] * 4 + ["drop"]
"""One is drawn for each move; `drop` costs a time limit."""

picks = st.sampled_from([0, 0, 0, 0, 0, 1, 2])
rarely = st.sampled_from([False] * 7 + [True])
some_units = st.frozensets(st.sampled_from(UNIT_TOKENS), max_size=2)


class PureLedger(RuleBasedStateMachine):
    """Random moves on one shard."""

    def __init__(self):
        super().__init__()
        self.now = NOW
        self.attempts = ["1-" + "f" * 16]
        self.entry = Entry(terms=Terms(deadline_ms=NOW + 24 * HOUR_MS, lease_ttl_ms=HOUR_MS), units=UNITS)

    @initialize(attempts=st.integers(1, 5), idle=st.integers(1, 3))
    def begin(self, attempts, idle):
        terms = replace(self.entry.terms, attempts=attempts, idle_attempts=idle)
        self.entry = replace(self.entry, terms=terms)
        self.opened()

    def opened(self):
        """For the subclass: the entry is as it should be written."""

    def apply(self, event) -> Reply:
        before = self.entry
        self.entry, reply = decide(before, event, self.now)
        self.check_move(before, event, reply)
        return reply

    def check_move(self, before, event, reply):
        after = self.entry
        if before.state is State.COMMITTED:
            assert after == before, "committed is final"
        elif before.state in FINAL:
            assert after.state in {before.state, State.COMMITTED}, "over is over, but for a manifest that was found"
        assert after.n >= before.n, "attempt numbers only rise"
        assert after.done >= before.done, "durable units stay"
        if reply.answer == "granted" and after != before:
            assert not before.has_lease(self.now), "one lease at a time"
            assert not is_past_limit(before)
            assert after.n == before.n + 1
            assert before.cancel == ""
        if reply.answer in {"yes", "revived"} and isinstance(event, ls.Renew):
            assert after.has_lease(self.now)
            assert event.attempt_id == after.attempt_id
        if reply.answer == "lost":
            assert after == before

    def pick(self, number):
        return self.attempts[-1 - number % min(3, len(self.attempts))]

    @rule(token=st.sampled_from(TOKENS))
    def acquire(self, token):
        reply = self.apply(ls.Acquire(token=token, worker="w"))
        if reply.answer == "granted":
            assert reply.attempt_id == f"{self.entry.n}-{token}"
            self.attempts.append(reply.attempt_id)

    @rule(number=picks)
    def start(self, number):
        self.apply(ls.Start(self.pick(number)))

    @rule(number=picks)
    def renew(self, number):
        self.apply(ls.Renew(self.pick(number)))

    @rule(number=picks, done=st.integers(0, UNITS + 1), started=some_units, finished=some_units)
    def progress(self, number, done, started, finished):
        self.apply(ls.Progress(self.pick(number), done=done, started=started, finished=finished))

    @rule(number=picks, reason=st.sampled_from(REASONS))
    def give_back(self, number, reason):
        self.apply(ls.GiveBack(self.pick(number), reason))

    @rule(number=picks, to=st.sampled_from([State.FAILED, State.CANCELLED]), luck=rarely)
    def finish(self, number, to, luck):
        if not luck:
            return
        self.apply(ls.Finish(self.pick(number), to, "preflight"))

    @rule(done=st.integers(0, UNITS), luck=rarely)
    def commit(self, done, luck):
        if not luck:
            return
        assert self.apply(ls.Commit(done)).answer == "yes"
        assert self.entry.state is State.COMMITTED

    @rule(number=picks, died=st.booleans())
    def expire(self, number, died):
        self.apply(ls.Expire(self.pick(number), died=died))

    @rule()
    def give_up(self):
        before = self.entry
        if self.apply(ls.GiveUp()).answer == "yes":
            assert is_past_limit(before) or self.now > before.terms.deadline_ms

    @rule(luck=rarely)
    def cancel(self, luck):
        if not luck:
            return
        self.apply(ls.Cancel("user"))

    @rule()
    def requeue(self):
        self.apply(ls.Requeue())

    @rule()
    def sent(self):
        self.apply(ls.Sent())

    @precondition(lambda self: self.entry.has_lease(self.now))
    @rule()
    def lease_runs_out(self):
        self.entry = replace(self.entry, lease_until_ms=1)

    @rule(luck=rarely)
    def deadline_passes(self, luck):
        if not luck:
            return
        self.entry = replace(self.entry, terms=replace(self.entry.terms, deadline_ms=1))

    @rule(luck=rarely, forgotten=st.integers(0, 2))
    def redis_is_wiped(self, luck, forgotten):
        if not luck:
            return
        floor = max(0, self.entry.n - forgotten)
        self.entry = Entry(terms=self.entry.terms, units=UNITS, n=floor, done=self.entry.done)
        self.entry = replace(self.entry, done_at_grant=self.entry.done)

    @invariant()
    def entry_is_sound(self):
        entry = self.entry
        assert 0 <= entry.done <= entry.units
        assert 0 <= entry.idle <= entry.lost <= entry.terms.attempts
        assert entry.idle <= entry.terms.idle_attempts
        if not entry.open:
            assert not entry.in_flight
            assert entry.lease_until_ms == 0
            assert entry.state not in ls.HELD
        if entry.has_lease(self.now):
            assert entry.open
            assert entry.attempt_id.startswith(f"{entry.n}-")


class RedisLedger(PureLedger):
    """The same moves on Redis; its answers and its entry must be the pure machine's."""

    numbers = itertools.count(1)

    def __init__(self, client):
        super().__init__()
        self.client = client
        self.ledger, self.book = Ledger(client), DispatchBook(client)
        self.now = self.book.now_ms()
        self.ref = ShardRef(run_id="20260101T000000Z-abcdef", dispatch=f"d{next(self.numbers)}", work="grade", shard=7)

    def opened(self):
        deadline = datetime.fromtimestamp(self.now // 1000, UTC) + timedelta(days=1)
        limits = ShardLimits(
            attempts=self.entry.terms.attempts,
            idle_attempts=self.entry.terms.idle_attempts,
            lease_ttl_s=HOUR_MS / 1000,
        )
        self.head = Head(
            run_id=self.ref.run_id,
            dispatch=self.ref.dispatch,
            work="grade",
            eval_name="e",
            queue="q",
            deadline=deadline,
            limits=limits,
            dispatch_uri="file:/nowhere",
        )
        self.entry = replace(self.entry, terms=self.head.terms)
        self.write()

    def write(self):
        envelope = Signed(payload={}, key_id="0" * 16, signature="")
        seed = EntrySeed(shard=7, units=UNITS, envelope=envelope, attempt_floor=self.entry.n, done=self.entry.done)
        self.book.write_dispatch(self.head, [seed])

    def apply(self, event) -> Reply:
        expected = super().apply(event)
        found = self.send(event)
        if self.entry.state in FINAL:
            # The flag is the dispatch's; a shard that is over does not look at it.
            expected, found = replace(expected, cancel=""), replace(found, cancel="")
        assert found == expected
        return found

    def send(self, event) -> Reply:
        ledger, ref = self.ledger, self.ref
        match event:
            case ls.Acquire():
                return ledger.acquire(ref, event.token, worker=event.worker)
            case ls.Start():
                return ledger.start(ref, event.attempt_id)
            case ls.Renew():
                return ledger.renew(ref, event.attempt_id)
            case ls.Progress():
                return ledger.progress(
                    ref, event.attempt_id, done=event.done, started=event.started, finished=event.finished
                )
            case ls.GiveBack():
                return ledger.give_back(ref, event.attempt_id, event.reason)
            case ls.Finish():
                return ledger.finish(ref, event.attempt_id, event.to.value, event.reason)
            case ls.Commit():
                return ledger.mark_committed(ref, done=event.done)
            case ls.Expire():
                return ledger.expire(ref, event.attempt_id, died=event.died)
            case ls.GiveUp():
                return ledger.give_up(ref)
            case ls.Cancel():
                return ledger.cancel(ref, event.reason)
            case ls.Requeue():
                return ledger.requeue(ref)
            case ls.Sent():
                return ledger.mark_sent(ref)
        raise AssertionError(event)

    @precondition(lambda self: self.entry.has_lease(self.now))
    @rule()
    def lease_runs_out(self):
        super().lease_runs_out()
        self.client.hset(self.book.keys.entry(self.ref.scope, 7), "leaseUntilMs", "1")

    @rule(luck=rarely)
    def deadline_passes(self, luck):
        super().deadline_passes(luck)
        if not luck:
            return
        self.client.hset(self.book.keys.head(self.ref.scope), "deadlineMs", "1")
        self.head = replace(self.head, deadline=datetime.fromtimestamp(0.001, UTC))

    @rule(luck=rarely, forgotten=st.integers(0, 2))
    def redis_is_wiped(self, luck, forgotten):
        super().redis_is_wiped(luck, forgotten)
        if not luck:
            return
        self.client.delete(*self.client.keys(f"mst:{{{self.ref.scope}}}*"))
        assert self.ledger.renew(self.ref, self.attempts[-1]) == Reply("unknown")
        self.write()

    @invariant()
    def redis_holds_the_same(self):
        head = self.book.head(self.ref.scope)
        ((_, found),) = self.book.entries(replace(head, deadline=self.head.deadline))
        assert self.timeless(found) == self.timeless(self.entry)

    def timeless(self, entry):
        return replace(
            entry,
            lease_until_ms=int(entry.has_lease(self.now)),
            sent_ms=int(entry.sent_ms > 0),
            cancel="" if entry.state in FINAL else entry.cancel,
            crashes=dict(entry.crashes),
        )

    @invariant()
    def every_key_ends_some_day(self):
        for key in self.client.keys(f"mst:{{{self.ref.scope}}}*"):
            assert self.client.pttl(key) > 6 * 24 * HOUR_MS, key


class FaultyLedger(RedisLedger):
    """The same, over a connection that loses, delays, doubles and cuts: what was done twice must be done twice in the
    pure machine, and the answer that came through is the answer to that one."""

    def __init__(self, client, faults):
        self.faults = faults
        faults.plan = lambda _words: None
        super().__init__(client)
        self.random = random.Random(next(self.numbers))

    def apply(self, event) -> Reply:
        before = self.faults.done
        self.faults.plan = lambda words: self.random.choice(FAULTS) if words[0].upper() == b"EVALSHA" else None
        try:
            found = self.send_until_answered(event)
        finally:
            self.faults.plan = lambda _words: None
        outcomes = [PureLedger.apply(self, event) for _ in range(self.faults.done - before)]
        expected = outcomes[self.faults.answered - before - 1]
        if self.entry.state in FINAL:
            expected, found = replace(expected, cancel=""), replace(found, cancel="")
        assert found == expected
        return found

    def send_until_answered(self, event):
        for _ in range(50):
            with suppress(BrokerError):
                return self.send(event)
        raise AssertionError("no answer")


def events_of(entry):
    """Everything that may be tried on an entry, by its own attempt and by one that never was."""
    yield from (ls.Acquire(token=token) for token in TOKENS[:2])
    for attempt in {entry.attempt_id or "1-" + "f" * 16, "9-" + "f" * 16}:
        yield from (ls.Start(attempt), ls.Renew(attempt), ls.Progress(attempt, done=entry.done + 1))
        yield from (ls.GiveBack(attempt, reason) for reason in ("drain", "crashed", "waiting_token"))
        yield from (ls.Finish(attempt, to, "why") for to in (State.FAILED, State.CANCELLED))
        yield from (ls.Expire(attempt, died=died) for died in (False, True))
    yield from (ls.Commit(1), ls.GiveUp(), ls.Cancel("user"), ls.Requeue(), ls.Sent())


def test_every_transition_of_the_table_can_happen_and_no_other():
    names = {kind: name for kind, (name, _) in ledger_machine._MOVES.items()}
    terms = Terms(deadline_ms=NOW + 24 * HOUR_MS, lease_ttl_ms=HOUR_MS, attempts=2, idle_attempts=2)
    waiting, known, reached = [Entry(terms=terms, units=2)], set(), set()
    while waiting:
        entry = waiting.pop()
        if repr(entry) in known:
            continue
        known.add(repr(entry))
        later = [replace(entry, lease_until_ms=1)] if entry.has_lease(NOW) else []
        later.append(replace(entry, terms=replace(entry.terms, deadline_ms=1)))
        # the flag is the whole dispatch's, so another shard's cancel sets it here
        later.append(replace(entry, cancel="user"))
        for event in events_of(entry):
            after, _ = decide(entry, event, NOW)
            if after != entry:
                reached.add((names[type(event)], entry.state, after.state))
            later.append(after)
        waiting += [one for one in later if one.sends < 3 and one.n < 3]
    table = {(name, old, new) for name, rows in ls.TRANSITIONS.items() for old, news in rows.items() for new in news}
    unchanged = {("commit", State.COMMITTED, State.COMMITTED), ("start", State.RUNNING, State.RUNNING)}
    assert reached == table - unchanged


def test_pure_ledger_keeps_its_invariants():
    run_state_machine_as_test(PureLedger, settings=settings(max_examples=300, stateful_step_count=60, deadline=None))


@pytest.mark.server
def test_redis_ledger_moves_like_the_pure_one(tmp_path):
    with valkey(tmp_path) as server:
        client = connect(server.url)
        run_state_machine_as_test(
            lambda: RedisLedger(client),
            settings=settings(
                max_examples=150,
                stateful_step_count=60,
                deadline=None,
                suppress_health_check=[HealthCheck.too_slow],
            ),
        )
        client.close()


@pytest.mark.server
def test_moves_that_are_lost_doubled_or_cut_on_the_way_are_moves_all_the_same(tmp_path):
    with (
        valkey(tmp_path) as server,
        tempfile.TemporaryDirectory() as short,
        broker_proxy(server.url, Path(short)) as faults,
    ):
        client = connect(faults.url, answer_s=0.3)
        run_state_machine_as_test(
            lambda: FaultyLedger(client, faults),
            settings=settings(
                max_examples=20,
                stateful_step_count=30,
                deadline=None,
                suppress_health_check=[HealthCheck.too_slow],
            ),
        )
        client.close()
        assert faults.faults > 50
