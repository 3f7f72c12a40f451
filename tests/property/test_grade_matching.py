"""Matching finds as many as an exhaustive search does."""

from __future__ import annotations

import itertools

from hypothesis import given
from hypothesis import strategies as st

from mst.grade.assertions.matching import assign, assign_in_order
from mst.grade.comparing import majority


@st.composite
def problems(draw):
    calls, events = draw(st.integers(0, 4)), draw(st.integers(0, 4))
    fits = [[draw(st.booleans()) for _ in range(events)] for _ in range(calls)]
    return fits, [draw(st.booleans()) for _ in range(calls)]


def best(fits, required, *, ordered: bool):
    """The most required calls, then the most calls, over every assignment of distinct events."""
    events = len(fits[0]) if fits else 0
    found = (0, 0)
    for size in range(len(fits) + 1):
        for calls in itertools.combinations(range(len(fits)), size):
            chosen = itertools.combinations if ordered else itertools.permutations
            if any(
                all(fits[call][event] for call, event in zip(calls, places, strict=True))
                for places in chosen(range(events), size)
            ):
                found = max(found, (sum(required[call] for call in calls), size))
    return found


@given(problems())
def test_any_order(problem):
    fits, required = problem
    made = assign(fits, required)
    assert (sum(required[call] for call in made), len(made)) == best(fits, required, ordered=False)


@given(problems())
def test_strict_order(problem):
    fits, required = problem
    made = assign_in_order(fits, required)
    assert (sum(required[call] for call in made), len(made)) == best(fits, required, ordered=True)


@given(st.lists(st.sampled_from(["baseline", "candidate", "tie"]), min_size=1))
def test_a_majority_is_strict_and_does_not_depend_on_order(sides):
    found = majority(sides)
    assert found == majority(sides[::-1])
    if found != "tie":
        assert 2 * sides.count(found) > len(sides)
