"""How much data is enough."""

import numpy as np
import pytest
from scipy import stats

from mst.errors import UsageError
from mst.stats import power
from mst.stats.cases import CaseData, TrialCounts
from mst.stats.compare import compare


def brute_power(n, p_win, alpha):
    wins = np.arange(n + 1)
    tail = np.minimum(stats.binom.cdf(wins, n, 0.5), stats.binom.sf(wins - 1, n, 0.5))
    return stats.binom.pmf(wins, n, p_win)[2 * tail <= alpha * (1 + 1e-12)].sum()


@pytest.mark.parametrize("n", [1, 5, 6, 20, 61, 150])
@pytest.mark.parametrize("p_win", [0.3, 0.5, 0.8, 1.0])
@pytest.mark.parametrize("alpha", [0.01, 0.05, 0.03125])
def test_sign_test_power_equals_enumeration(n, p_win, alpha):
    reached, size = power.sign_test_power(n, p_win, alpha)

    assert reached == pytest.approx(brute_power(n, p_win, alpha), abs=1e-9)
    assert size == pytest.approx(brute_power(n, 0.5, alpha), abs=1e-9)
    assert size <= alpha + 1e-12


@pytest.mark.parametrize(("p_win", "alpha", "wanted"), [(0.8, 0.05, 0.8), (0.3, 0.05, 0.9), (0.95, 0.2, 0.5)])
def test_sign_test_n_is_the_first_that_stays(p_win, alpha, wanted):
    reached = [brute_power(n, p_win, alpha) >= wanted for n in range(1, 160)]
    expected = next(n for n in range(1, 150) if all(reached[n - 1 : n + 5]))

    assert power.sign_test_n(p_win, alpha, wanted) == expected


def test_sign_test_n_for_a_hair_is_refused():
    with pytest.raises(UsageError, match="100,000"):
        power.sign_test_n(0.501)


def test_large_sign_tests_are_quick_and_sane():
    assert 15_000 < power.sign_test_n(0.51) < 25_000


@pytest.mark.parametrize(("alpha", "fewest"), [(0.05, 6), (0.0625, 5), (1.0, 1), (0.001, 11)])
def test_fewest_decisive(alpha, fewest):
    assert power.min_decisive(alpha) == fewest


def test_effect_and_number_are_inverse():
    effect = power.minimum_effect(0.2, 150)
    assert power.units_required(0.2, effect) == pytest.approx(150)


def test_enough_data_of_a_comparison():
    cases = [CaseData(str(index), TrialCounts(index % 2, 1, 1), TrialCounts(1, 1, 1)) for index in range(40)]

    found = power.enough_data(compare(cases), wanted=0.2)
    stricter = power.enough_data(compare(cases), n_candidates=5, wanted=0.2)

    assert found.smallest_p == 2.0**-20
    assert found.detectable == pytest.approx(2.8016 * compare(cases).se, rel=1e-4)
    assert found.units_for_effect == 51
    assert not found.more_trials_add_nothing
    assert stricter.detectable > found.detectable


def test_repeats_that_agree_add_nothing_and_no_spread_detects_nothing():
    cases = [CaseData(str(index), TrialCounts(0, 3, 3), TrialCounts(3, 3, 3)) for index in range(4)]

    found = power.enough_data(compare(cases))

    assert found.more_trials_add_nothing
    assert (found.detectable, found.units_for_effect) == (None, None)
