from dataclasses import replace

import pytest

from mst.errors import InvariantError
from mst.fleet import ledger_machine, ledger_states
from mst.fleet.janitor_rules import needed
from mst.fleet.ledger_machine import decide
from mst.fleet.ledger_states import (
    TRANSITIONS,
    Acquire,
    Cancel,
    Commit,
    Entry,
    Expire,
    Finish,
    GiveBack,
    GiveUp,
    Progress,
    Renew,
    Sent,
    Start,
    State,
    Terms,
)

T0 = 1_000_000
TTL = 1_000
NEW = Entry(terms=Terms(deadline_ms=T0 + 10**6, lease_ttl_ms=TTL), units=5)


def play(entry, *events, now=T0):
    """The entry and the answers after some events; a number moves the clock on by that many milliseconds."""
    answers = []
    for event in events:
        if isinstance(event, int):
            now += event
            continue
        entry, outcome = decide(entry, event, now)
        answers.append(outcome)
    return entry, answers


def acquire(letter="a"):
    return Acquire(token=letter * 16, worker=f"w-{letter}")


def attempt(number, letter="a"):
    return f"{number}-{letter * 16}"


def test_a_shard_is_granted_once():
    _, (first, second, again) = play(NEW, acquire("a"), acquire("b"), acquire("a"))
    assert (first.answer, first.attempt_id) == ("granted", attempt(1))
    assert (second.answer, second.why) == ("refused", "leased")
    assert again == first


def test_a_lost_lease_goes_to_the_next_and_the_first_hears_of_it():
    entry, answers = play(
        NEW, acquire("a"), Start(attempt(1)), TTL, acquire("b"), Renew(attempt(1)), Renew(attempt(2, "b"))
    )
    assert [one.answer for one in answers] == ["granted", "yes", "granted", "lost", "yes"]
    assert answers[3].why == "superseded"
    assert (entry.n, entry.lost, entry.idle) == (2, 1, 1)


def test_a_lapsed_attempt_revives_while_nobody_else_was_granted():
    entry, answers = play(NEW, acquire(), Start(attempt(1)), TTL, Expire(attempt(1)), 500, Renew(attempt(1)))
    assert answers[-1].answer == "revived"
    assert (entry.state, entry.lost, entry.open) == (State.RUNNING, 0, True)


def test_three_attempts_without_a_new_unit_are_the_end():
    entry = NEW
    now = T0
    for number in (1, 2, 3):
        entry, (granted,) = play(entry, acquire(), now=now)
        assert granted.attempt_id == attempt(number)
        now += TTL
    entry, (expired, refused, given_up) = play(entry, Expire(attempt(3)), acquire("z"), GiveUp(), now=now)
    assert (expired.answer, refused.why, given_up.answer) == ("past_limit", "past_limit", "yes")
    assert (entry.state, entry.reason) == (State.FAILED, "limit")


def test_a_new_finished_unit_starts_the_count_anew_but_ten_are_all():
    entry, now = replace(NEW, units=100), T0
    for number in range(1, 11):
        entry, (granted, _, _) = play(
            entry, acquire(), Start(attempt(number)), Progress(attempt(number), done=number), now=now
        )
        assert granted.answer == "granted"
        now += TTL
    entry, (refused,) = play(entry, acquire(), now=now)
    assert (refused.why, entry.idle) == ("past_limit", 0)


@pytest.mark.parametrize("reason", sorted(ledger_states.UNCOUNTED - {"waiting_token"}))
def test_giving_back_for_a_good_reason_is_not_a_failed_attempt(reason):
    entry = NEW
    for number in range(1, 15):
        entry, answers = play(entry, acquire(), Start(attempt(number)), GiveBack(attempt(number), reason))
        assert [one.answer for one in answers] == ["granted", "yes", "yes"]
    assert (entry.state, entry.lost, entry.idle) == (State.QUEUED, 0, 0)


def test_giving_back_after_a_crash_counts_once():
    entry, answers = play(
        NEW, acquire(), Start(attempt(1)), GiveBack(attempt(1), "crashed"), GiveBack(attempt(1), "crashed")
    )
    assert [one.answer for one in answers[2:]] == ["yes", "yes"]
    assert (entry.lost, entry.idle) == (1, 1)
    assert play(entry, Renew(attempt(1)))[1][0].why == "given_back"


def test_a_unit_in_flight_in_two_lost_attempts_is_poison():
    entry, now = NEW, T0
    for number in (1, 2):
        entry, _ = play(
            entry,
            acquire(),
            Progress(attempt(number), done=number, started=frozenset({"bad", f"once{number}"})),
            now=now,
        )
        now += TTL
    _, (granted,) = play(entry, acquire(), now=now)
    assert granted.poison == ("bad",)


def test_units_in_flight_of_an_orderly_end_are_not_suspects():
    entry, _ = play(
        NEW, acquire(), Progress(attempt(1), done=0, started=frozenset({"u"})), GiveBack(attempt(1), "drain")
    )
    assert (entry.in_flight, dict(entry.crashes)) == (frozenset(), {})


@pytest.mark.parametrize("state", list(State))
def test_a_manifest_in_the_store_commits_from_any_state(state):
    entry, (answer,) = play(replace(NEW, state=state), Commit(done=5))
    assert (entry.state, answer.answer) == (State.COMMITTED, "yes")


def test_nothing_moves_a_committed_shard():
    done, _ = play(NEW, acquire(), Commit(done=5))
    events = [acquire("b"), Renew(attempt(1)), GiveBack(attempt(1), "drain"), Cancel("user"), GiveUp(), Sent()]
    events += [Finish(attempt(1), State.FAILED, "x"), Expire(attempt(1), died=True), Progress(attempt(1), done=1)]
    for event in events:
        assert play(done, event, now=T0 + 10**9)[0] == done


def test_cancel_ends_what_nobody_holds_and_tells_who_does():
    entry, (answer,) = play(NEW, Cancel("user"))
    assert (entry.state, answer.answer) == (State.CANCELLED, "cancelled")
    entry, answers = play(
        NEW, acquire(), Start(attempt(1)), Cancel("user"), Renew(attempt(1)), Progress(attempt(1), done=1)
    )
    assert [(one.answer, one.cancel) for one in answers[2:]] == [("pending", "user"), ("yes", "user"), ("yes", "user")]
    entry, _ = play(entry, GiveBack(attempt(1), "cancelled"))
    assert entry.state is State.CANCELLED


def test_after_the_deadline_nothing_is_granted_and_who_runs_is_told():
    late = NEW.terms.deadline_ms + 1
    assert play(NEW, acquire(), now=late)[1][0].why == "deadline"
    held, _ = play(NEW, acquire(), Start(attempt(1)), now=late - 500)
    _, (renewed,) = play(held, Renew(attempt(1)), now=late)
    assert (renewed.answer, renewed.cancel) == ("yes", "deadline")


def test_an_attempt_from_before_a_wipe_goes_on():
    rebuilt = replace(NEW, n=2, done=1)
    entry, (answer,) = play(rebuilt, Renew(attempt(2, "b")))
    assert (answer.answer, entry.attempt_id, entry.state) == ("revived", attempt(2, "b"), State.RUNNING)
    assert play(entry, Renew(attempt(1)))[1][0].answer == "lost"
    assert play(rebuilt, acquire())[1][0].attempt_id == attempt(3)


def test_waiting_for_a_token_parks_the_shard():
    entry, _ = play(NEW, acquire(), Start(attempt(1)), GiveBack(attempt(1), "waiting_token"))
    assert entry.state is State.WAITING_TOKEN
    assert play(entry, acquire("b"))[1][0].why == "waiting_token"
    assert play(entry, GiveUp())[1][0].answer == "ignored"
    entry, (answer,) = play(entry, ledger_states.Requeue())
    assert (entry.state, answer.answer, entry.lost) == (State.QUEUED, "queued", 0)


def test_a_dead_worker_is_counted_at_once_and_cannot_come_back():
    entry, answers = play(NEW, acquire(), Start(attempt(1)), Expire(attempt(1), died=True), Renew(attempt(1)))
    assert [one.answer for one in answers[2:]] == ["queued", "lost"]
    assert (entry.lost, entry.open) == (1, False)


def test_what_is_not_in_the_table_cannot_happen(monkeypatch):
    monkeypatch.setitem(TRANSITIONS, "acquire", {})
    with pytest.raises(InvariantError, match="acquire moved a shard from queued to leased"):
        decide(NEW, acquire(), T0)


def test_every_event_has_a_row_and_a_move():
    assert {name for name, _ in ledger_machine._MOVES.values()} == set(TRANSITIONS)


@pytest.mark.parametrize(
    ("events", "wait_ms", "idle_ms", "expected"),
    [
        ((), 0, -1, "send"),
        ((Sent(),), 0, 5_000, None),
        ((Sent(),), 500, 499, None),
        ((Sent(),), 500, 500, "send"),
        ((Sent(),), 500, -1, None),
        ((Sent(), Sent()), 500, 5_000, None),
        ((Sent(), Sent()), 1000, 5_000, "send"),
        ((acquire(),), TTL - 1, 5_000, None),
        ((acquire(),), TTL, -1, "expire"),
        ((acquire(), TTL, Expire(attempt(1))), 0, -1, "send"),
        ((acquire(), GiveBack(attempt(1), "drain")), 0, -1, "send"),
        ((acquire(), GiveBack(attempt(1), "incompatible")), 499, 5_000, None),
        ((acquire(), GiveBack(attempt(1), "incompatible")), 500, 5_000, "send"),
        ((acquire(), Start(attempt(1)), GiveBack(attempt(1), "waiting_token")), 10_000, 10_000, None),
        ((acquire(), Commit(5)), 10**9, 10**9, None),
        ((), 10**9, -1, "give_up"),
    ],
)
def test_a_janitor_knows_what_a_shard_needs(events, wait_ms, idle_ms, expected):
    entry, _ = play(NEW, *events)
    clock = T0 + sum(one for one in events if isinstance(one, int)) + wait_ms
    assert needed(entry, queue_idle_ms=idle_ms, now_ms=clock) == expected
