"""The rules by which turns are given, without a clock."""

import itertools

from hypothesis import given
from hypothesis import strategies as st

from mst.providers.rates import Ask, Board, Rate, caps_of, rates_of, spacing_ms, wanted


def names(turns):
    return [turn.call for turn in turns[0]]


def test_a_plans_limits_by_resource():
    written = {"providers": {"p": {"concurrent": 2}}, "servers": {"s": {"per_minute": 60}}}
    assert rates_of(written) == {
        "provider:p": Rate("provider:p", concurrent=2),
        "server:s": Rate("server:s", per_minute=60),
    }
    assert rates_of({}) == {}


def test_a_resource_without_limits_is_named_all_the_same():
    rates = rates_of({"providers": {"p": {"concurrent": 2}}})
    assert wanted(["server:s", "provider:p", "provider:p"], rates) == (rates["provider:p"], Rate("server:s"))


def test_the_lower_of_two_limits_holds():
    one, other = Rate("r", concurrent=5, per_minute=10), Rate("r", concurrent=3, tokens_per_minute=7)
    assert one.lowered(other) == other.lowered(one) == Rate("r", 3, 10, 7)
    assert one.lowered(None) == one
    assert caps_of({"r": {"concurrent": 3}}) == {"r": Rate("r", concurrent=3)}


def test_a_queue_that_has_to_wait_does_not_hold_up_another():
    board = Board()
    narrow, wide = (Rate("r", concurrent=1),), (Rate("q"),)
    for call, wants in (("a", narrow), ("b", narrow), ("c", wide)):
        board.ask(Ask(call, wants))
    assert names(board.turns(0)) == ["a", "c"]
    assert board.turns(0) == ([], None)
    board.release("a")
    assert names(board.turns(1)) == ["b"]


def test_it_says_when_to_look_again():
    board = Board()
    rate = (Rate("r", per_minute=60),)
    for call in "abc":
        board.ask(Ask(call, rate))
    given, again = board.turns(10_000)
    assert [turn.call for turn in given] == ["a"]
    assert 600 < again < spacing_ms(60)
    assert names(board.turns(10_000 + again)) == ["b"]


def test_a_call_of_two_resources_waits_for_both():
    board = Board()
    board.ask(Ask("a", (Rate("p", concurrent=1), Rate("s", concurrent=1))))
    assert names(board.turns(0)) == ["a"]
    board.ask(Ask("b", (Rate("p", concurrent=1),)))
    board.ask(Ask("c", (Rate("s", concurrent=1),)))
    assert names(board.turns(0)) == []
    board.release("a")
    assert sorted(names(board.turns(0))) == ["b", "c"]


@given(
    st.lists(st.tuples(st.sampled_from(["ask", "end", "look"]), st.integers(0, 9), st.integers(0, 3000)), max_size=80),
    st.integers(1, 4),
    st.sampled_from([None, 120.0, 6000.0]),
)
def test_no_order_of_events_passes_a_limit(events, concurrent, per_minute):
    board, rate = Board(), (Rate("r", concurrent=concurrent, per_minute=per_minute),)
    running, starts, now, asked = set(), [], 0.0, 0
    for kind, number, pause in events:
        now += pause
        if kind == "ask":
            board.ask(Ask(f"c{asked}", rate))
            asked += 1
        elif kind == "end" and running:
            call = sorted(running)[number % len(running)]
            running.discard(call)
            board.release(call)
        for turn in board.turns(now)[0]:
            running.add(turn.call)
            starts.append(now + turn.wait_ms)
        assert len(running) <= concurrent
    if per_minute:
        for first, later in itertools.pairwise(starts):
            assert later - first >= -1e-6
        for at in range(len(starts) - 3):
            # lost time of up to 0.2 s may be made up for
            assert starts[at + 3] - starts[at] >= 3 * spacing_ms(per_minute) - 200 - 1e-6
