"""Means that come value by value equal those of all values at once; repeats equal what enumeration says."""

import itertools
import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mst.stats.intervals import mean_t
from mst.stats.repeats import over_cases, pass_at_k, pass_hat_k, shown_k
from mst.stats.streaming import StreamedMean

values = st.one_of(st.none(), st.floats(-1e6, 1e6, allow_subnormal=False))
families = st.one_of(st.none(), st.integers(0, 3))


def streamed(rows):
    found = StreamedMean()
    for value, family in rows:
        found.add(value, family)
    return found.estimate()


def close(a, b, scale):
    return (a is None) == (b is None) and (a is None or math.isclose(a, b, rel_tol=1e-9, abs_tol=1e-9 * scale))


@settings(deadline=None)
@given(st.lists(st.tuples(values, families), max_size=40))
def test_a_streamed_mean_is_the_mean_of_all(rows):
    here = streamed(rows)
    there = mean_t([value for value, _ in rows], [family for _, family in rows])
    scale = max((abs(value) for value, _ in rows if value is not None), default=1) or 1
    assert (here.n, here.n_units, here.missing) == (there.n, there.n_units, there.missing)
    assert close(here.mean, there.mean, scale)
    assert close(here.se, there.se, scale)
    if here.se and there.se and min(here.se, there.se) > 1e-9 * scale:
        assert close(here.interval.low, there.interval.low, 1e3 * scale)
        assert close(here.interval.high, there.interval.high, 1e3 * scale)


@settings(deadline=None)
@given(st.lists(st.tuples(values, families), max_size=25), st.randoms(use_true_random=False))
def test_the_order_of_the_values_does_not_matter(rows, rng):
    shuffled = list(rows)
    rng.shuffle(shuffled)
    one, other = streamed(rows), streamed(shuffled)
    scale = max((abs(value) for value, _ in rows if value is not None), default=1) or 1
    assert close(one.mean, other.mean, scale)
    assert close(one.se, other.se, scale)


def test_a_large_offset_does_not_eat_the_spread():
    here = streamed([(1e9 + step, None) for step in range(10)])
    assert here.se == pytest.approx(mean_t(list(range(10))).se)


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf, None])
def test_a_value_that_is_no_number_is_missing(value):
    here = streamed([(1.0, None), (value, None), (2.0, None)])
    assert (here.n, here.missing, here.mean) == (2, 1, 1.5)


@given(st.integers(1, 6), st.data())
def test_repeats_are_what_drawing_k_of_the_trials_gives(n, data):
    trials = data.draw(st.lists(st.booleans(), min_size=n, max_size=n))
    k = data.draw(st.integers(1, n))
    draws = list(itertools.combinations(trials, k))
    assert pass_at_k(n, sum(trials), k) == pytest.approx(sum(map(any, draws)) / len(draws))
    assert pass_hat_k(n, sum(trials), k) == pytest.approx(sum(map(all, draws)) / len(draws))


@given(st.lists(st.integers(1, 5).flatmap(lambda n: st.tuples(st.just(n), st.integers(0, n))), max_size=12))
def test_pass_1_is_the_mean_share_and_k_only_leaves_out_short_cases(cases):
    first = over_cases(cases, 1)
    assert first.too_few == 0
    assert first.pass_at_k == first.pass_hat_k or first.pass_at_k == pytest.approx(first.pass_hat_k)
    if cases:
        assert first.pass_at_k == pytest.approx(sum(passed / n for n, passed in cases) / len(cases))
    for k in range(1, 6):
        rates = over_cases(cases, k)
        assert rates.n_cases + rates.too_few == len(cases)
        assert rates.n_cases == sum(n >= k for n, _ in cases)
        if rates.n_cases:
            assert rates.pass_hat_k <= rates.pass_at_k + 1e-12


def test_families_widen_the_interval_of_repeats_that_move_together():
    cases = [(3, 3)] * 6 + [(3, 0)] * 6
    alone = over_cases(cases, 2)
    together = over_cases(cases, 2, ["f"] * 3 + ["g"] * 3 + ["h"] * 3 + ["i"] * 3)
    assert (alone.n_units, together.n_units) == (12, 4)
    assert together.hat_interval().low < alone.hat_interval().low
    assert together.hat_interval().low >= 0
    assert together.hat_interval().high <= 1


@given(st.integers(1, 300))
def test_shown_k_begins_at_one_and_ends_at_all(most):
    found = shown_k(most)
    assert found[0] == 1
    assert found[-1] == most
    assert found == sorted(set(found))
    assert len(found) <= 12


def test_shown_k_of_ten():
    assert shown_k(10) == [1, 2, 3, 5, 10]
