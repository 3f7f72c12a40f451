"""When a turn begins here that is told in the time of Redis."""

import time

import pytest

from mst.fleet.limiter import KNOWN_PARTS, _Clock


def test_a_turn_never_seems_fresher_than_it_is():
    """The clock there is 1,000 s ahead. An answer that took its time says less; the best of the last ones counts."""
    clock = _Clock()
    clock.heard(there=1010.5, asked=10.0)  # said when it was 10.5 here, at the end of half a second
    assert clock.here(1012.0) == pytest.approx(11.5)
    clock.heard(there=1020.0, asked=20.0)
    assert clock.here(1012.0) == pytest.approx(12.0)
    clock.heard(there=1030.3, asked=30.0)
    assert clock.here(1012.0) == pytest.approx(12.0)


def test_a_clock_that_was_set_is_believed_after_a_while():
    clock = _Clock()
    clock.heard(there=1000.0, asked=0.0)
    for second in range(KNOWN_PARTS):
        clock.heard(there=5000.0 + second, asked=float(second))
    assert clock.here(5003.0) == pytest.approx(3.0)


def test_before_anything_was_heard_a_turn_begins_now():
    before = time.monotonic()
    assert before <= _Clock().here(1e9) <= time.monotonic()
