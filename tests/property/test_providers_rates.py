"""No server that counts calls in a minute ever counts too many, however late calls arrive within a bound.

The rules that give turns run without a clock, against servers that count in different ways.
"""

import bisect
import itertools
import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mst.providers.rates import DELAY_MS, HORIZON_MS, Ask, Board, Rate

MINUTE_MS = 60_000


def arrivals(seed, per_minute, *, horizon_ms, delay_ms, minutes):
    """When calls come to a server: turns are looked for irregularly, with stand-stills; each takes its own delay."""
    rng = random.Random(seed)
    board, wants = Board(horizon_ms=horizon_ms), (Rate("provider:p", per_minute=per_minute),)
    now, came, asked = 0.0, [], 0
    habit = rng.choice([(0.0, 0.0), (0.001, 5000.0), (0.01, 500.0), (0.0002, 70_000.0)])
    patience = rng.choice([1.0, 20.0, 400.0])
    delays = rng.choice(
        [lambda: 0.0, lambda: delay_ms, lambda: rng.uniform(0, delay_ms), lambda: rng.choice([0, delay_ms])]
    )
    while now < minutes * MINUTE_MS:
        for _ in range(per_minute if rng.random() < 0.02 else rng.randint(0, 3)):
            board.ask(Ask(f"c{asked}", wants))
            asked += 1
        turns, again_ms = board.turns(now)
        for turn in turns:
            came.append(now + turn.wait_ms + delays())
            board.release(turn.call)
        late_ms = rng.uniform(0, patience) if rng.random() >= habit[0] else habit[1]
        now += late_ms if again_ms is None else min(again_ms, 1000.0) + late_ms * rng.random()
    return sorted(came)


def most_in_any_minute(came):
    return max((bisect.bisect_right(came, at + MINUTE_MS) - place for place, at in enumerate(came)), default=0)


def most_in_a_clock_minute(came, offset_ms):
    minutes = [int((at - offset_ms) // MINUTE_MS) for at in came]
    return max((len(list(group)) for _, group in itertools.groupby(minutes)), default=0)


@settings(deadline=None, max_examples=60)
@given(
    st.integers(0, 2**32),
    st.sampled_from([1, 2, 7, 30, 60, 100, 300, 301, 1200]),
    st.sampled_from([0.0, HORIZON_MS]),
    st.integers(0, MINUTE_MS),
)
def test_no_minute_has_more_calls_than_allowed_however_it_is_counted(seed, per_minute, horizon_ms, offset_ms):
    came = arrivals(seed, per_minute, horizon_ms=horizon_ms, delay_ms=DELAY_MS - 1, minutes=2)
    assert most_in_any_minute(came) <= per_minute
    assert most_in_a_clock_minute(came, offset_ms) <= per_minute


def bucket_refuses(came, per_minute, burst):
    """How many calls a bucket refuses that fills evenly."""
    level, before, refused = burst, 0.0, 0
    for at in came:
        level = min(burst, level + (at - before) * per_minute / MINUTE_MS)
        before = at
        if level >= 1:
            level -= 1
        else:
            refused += 1
    return refused


@settings(deadline=None, max_examples=25)
@given(st.integers(0, 2**32), st.sampled_from([300, 1200]))
def test_a_bucket_of_one_second_refuses_no_call_that_arrives_within_half_a_second(seed, per_minute):
    came = arrivals(seed, per_minute, horizon_ms=HORIZON_MS, delay_ms=500.0, minutes=1)
    assert bucket_refuses(came, per_minute, per_minute / 60) == 0


@pytest.mark.parametrize("per_minute", [30, 300, 1200])
def test_with_enough_to_do_the_limit_is_reached_to_within_five_per_cent(per_minute):
    board, wants = Board(), (Rate("provider:p", per_minute=per_minute),)
    rng, now, started = random.Random(1), 0.0, 0
    for call in range(per_minute * 5):
        board.ask(Ask(f"c{call}", wants))
    while now < 4 * MINUTE_MS:
        turns, again_ms = board.turns(now)
        started += len(turns)
        # a thread or a loop wakes up some milliseconds late
        now += (again_ms or 0.0) + rng.uniform(0.1, 15)
    assert 0.95 * 4 * per_minute <= started <= 4 * per_minute


def test_the_counters_here_find_calls_that_come_together():
    """A board that made up for all lost time would be found: everything that a stand-still held up comes at once."""
    spaced = [at * 50.0 for at in range(1200)]
    assert most_in_any_minute(spaced) <= 1200
    assert most_in_any_minute([*spaced, *(60_000.0 for _ in range(20))]) > 1200
    assert bucket_refuses([0.0] * 21, 1200, 20) == 1
