"""Intervals of rates and means: units, edges, and what is undefined."""

import math

import pytest
from scipy import stats

from mst.errors import InvariantError
from mst.stats.cases import TrialCounts
from mst.stats.intervals import (
    Interval,
    clopper_pearson,
    cluster_se,
    mean_t,
    newcombe,
    pass_rate,
    t_interval,
    wilson,
    zero_failures_bound,
)


def trials(*passed_of):
    return [TrialCounts(passed, scored, scored) for passed, scored in passed_of]


@pytest.mark.parametrize(("passed", "n"), [(0, 20), (20, 20), (7, 10), (1, 400)])
@pytest.mark.parametrize("level", [0.9, 0.95, 0.99])
@pytest.mark.parametrize(("method", "function"), [("wilson", wilson), ("exact", clopper_pearson)])
def test_binomial_intervals_equal_the_reference(passed, n, level, method, function):
    expected = stats.binomtest(passed, n).proportion_ci(level, method)

    found = function(passed, n, level)

    assert (found.low, found.high) == pytest.approx((expected.low, expected.high), abs=1e-9)


def test_wilson_has_exact_ends():
    assert wilson(0, 20).low == 0.0
    assert wilson(20, 20).high == 1.0
    assert wilson(0, 20).high == pytest.approx(0.161125, abs=1e-6)


@pytest.mark.parametrize("interval", [wilson(0, 0), clopper_pearson(0, 0), newcombe(0, 0, 1, 2)])
def test_without_trials_there_is_no_interval_but_a_reason(interval):
    assert interval.low is None
    assert interval.high is None
    assert interval.reason


def test_zero_failures():
    assert zero_failures_bound(30) == pytest.approx((0.095033853, 0.1))
    with pytest.raises(InvariantError):
        zero_failures_bound(0)


def test_one_trial_a_case_is_plain_wilson():
    found = pass_rate(trials((1, 1), (0, 1), (1, 1), (1, 1)))

    assert found.interval == wilson(3, 4)
    assert (found.n_effective, found.n_cases, found.n_units, found.one_trial) == (4, 4, 4, False)


def test_repeats_that_always_agree_count_once():
    found = pass_rate(trials((3, 3), (0, 3), (5, 5), (3, 3)))

    assert found.one_trial
    assert found.interval == wilson(3, 4)


def test_families_count_less_than_their_cases():
    cases = trials(*[(1, 1)] * 10, *[(0, 1)] * 10)
    families = [index // 5 for index in range(20)]

    found = pass_rate(cases, families)

    assert found.n_units == 4
    assert found.n_effective < 4
    assert found.interval.low < pass_rate(cases).interval.low


def test_all_passed_rests_on_the_number_of_families():
    found = pass_rate(trials(*[(2, 2)] * 6), ["a", "a", "a", "b", "b", None])

    assert found.n_effective == found.n_units == 3
    assert found.interval == wilson(3, 3)


def test_effective_number_never_passes_the_trials():
    """Ten cases at 5 of 10, one at 6 of 10: less spread than trials can have, by luck."""
    found = pass_rate(trials(*[(5, 10)] * 10, (6, 10)))

    assert found.n_effective == 110


def test_no_spread_at_all_rests_on_the_units():
    assert pass_rate(trials(*[(1, 3)] * 7)).n_effective == 7


def test_cases_without_a_verdict_are_counted_but_do_not_enter():
    found = pass_rate([TrialCounts(1, 1, 3, errored=1), TrialCounts(0, 0, 3, errored=2)], ["a", "b"])

    assert (found.rate, found.n_cases) == (1.0, 1)
    assert (found.trials.planned, found.trials.scored, found.trials.errored, found.trials.missing) == (6, 1, 3, 2)


def test_nothing_scored_has_no_rate():
    found = pass_rate([TrialCounts(0, 0, 2)])

    assert found.rate is None
    assert found.interval.reason


def test_mean_leaves_null_out_and_counts_it():
    found = mean_t([2.0, None, 4.0], ["a", "b", "c"])

    assert (found.mean, found.n, found.n_units, found.missing) == (3.0, 2, 2, 1)
    assert found.interval.low == pytest.approx(3 - stats.t.ppf(0.975, 1))


@pytest.mark.parametrize("values", [[], [None], [1.0], [0.1, 0.1, 0.1]])
def test_mean_without_spread_has_no_interval(values):
    assert mean_t(values).interval.low is None
    assert mean_t(values).interval.reason


def test_equal_values_have_no_error_despite_rounding():
    assert cluster_se([1 / 3] * 7)[0] == 0.0


def test_values_of_one_family_only_have_no_error():
    assert cluster_se([0.0, 1.0, 1.0], ["a", "a", "a"]) == (None, 1)
    assert t_interval(0.5, None, 1, 0.95).reason == "needs at least two units, there is 1"


def test_clipping_keeps_an_undefined_interval():
    undefined = Interval(None, None, 0.95, "why")
    assert undefined.clipped(-1, 1) is undefined
    assert Interval(-2, 0.5, 0.95).clipped(-1, 1) == Interval(-1, 0.5, 0.95)


def test_level_widens():
    assert wilson(5, 10, 0.99).low < wilson(5, 10, 0.9).low
    assert math.isclose(wilson(5, 10).low + wilson(5, 10).high, 1)
