"""Repeats, bounds, resampling, paired tests, percentiles; and what loading all this costs."""

import subprocess
import sys
import time
from fractions import Fraction

import numpy as np
import pytest
from scipy import stats

from mst.stats.bootstrap import bootstrap_mean, ideal_se
from mst.stats.bounds import error_bounds
from mst.stats.cases import CandidateData, CaseData, TrialCounts
from mst.stats.decision import decide
from mst.stats.paired import mcnemar, paired_difference, wilcoxon
from mst.stats.repeats import over_cases, pass_at_k, pass_hat_k
from mst.stats.summaries import nested_trials, percentile, variance


def test_repeats_need_k_trials():
    assert pass_at_k(3, 1, 4) is None
    assert pass_hat_k(3, 3, 4) is None

    rates = over_cases([(2, 1), (5, 5), (5, 0)], 3)

    assert (rates.pass_at_k, rates.pass_hat_k, rates.n_cases, rates.too_few) == (0.5, 0.5, 2, 1)
    assert over_cases([], 1).pass_at_k is None


def test_bounds_without_scores():
    assert error_bounds(0, 0, 0).exclude is None
    assert error_bounds(0, 0, 3).exclude is None
    assert (error_bounds(0, 0, 3).lower, error_bounds(0, 0, 3).upper) == (0.0, 1.0)


def test_bootstrap_in_pieces_draws_what_it_would_draw_at_once():
    scores = list(np.random.Generator(np.random.PCG64(1)).random(3000))
    drawn = np.random.Generator(np.random.PCG64(9)).integers(0, 3000, (1000, 3000))
    means = np.array(scores)[drawn].mean(axis=1)

    found = bootstrap_mean(scores, draws=1000, seed=9)

    assert found.se == pytest.approx(means.std(ddof=1), rel=1e-9)
    assert (found.low, found.high) == pytest.approx(tuple(np.percentile(means, [2.5, 97.5])))
    assert found.se == pytest.approx(ideal_se(scores), rel=0.1)


@pytest.mark.parametrize("values", [[3, -1, 4, -1, 5, 9, -2, 6], [1, 2, 3], [5, -5, 2], [1, 1, -1, 2, 2]])
def test_wilcoxon_equals_the_permutation_of_ranks(values):
    ranks = stats.rankdata(np.abs(values))
    patterns = np.array(np.meshgrid(*[[0, 1]] * len(values))).reshape(len(values), -1).T @ ranks
    seen = ranks[np.array(values) > 0].sum()
    expected = min(1.0, 2 * min((patterns >= seen).mean(), (patterns <= seen).mean()))

    statistic, p = wilcoxon([Fraction(value) for value in values])

    assert statistic == min(seen, ranks.sum() - seen)
    assert p == pytest.approx(expected)


def test_wilcoxon_leaves_zeros_out():
    assert wilcoxon([Fraction(0)]) == (0.0, 1.0)


@pytest.mark.parametrize(("a", "b"), [(0, 0), (3, 3), (0, 6), (5, 2)])
def test_mcnemar_equals_the_reference(a, b):
    expected = stats.binomtest(a, a + b).pvalue if a + b else 1.0
    found = mcnemar(a, b)
    assert found.p_exact == pytest.approx(expected)
    assert found.numerator / found.denominator == found.p_exact
    assert found.p_mid <= found.p_exact


def test_paired_t_equals_the_reference():
    a, b = [0.3, 0.9, 0.4, 0.8], [0.1, 0.8, 0.5, 0.2]
    found = paired_difference(a, b)
    expected = stats.ttest_rel(a, b)
    assert (found.t, found.p_t) == pytest.approx((expected.statistic, expected.pvalue))
    assert paired_difference([1.0], [0.0]).p_t is None
    assert paired_difference([1.0, 1.0], [0.0, 1.0]).correlation is None


@pytest.mark.parametrize("percent", [0, 12.5, 50, 99, 100])
def test_percentile_equals_the_reference(percent):
    values = [5.0, 1.0, 4.0, 4.0, 9.5]
    assert percentile(values, percent) == pytest.approx(np.percentile(values, percent))
    assert percentile([2.0], percent) == 2.0


def test_nested_trials_of_single_trials_have_no_inner_spread():
    assert nested_trials([[1.0], [0.0]]).within_case_variance is None
    assert variance([1.0]) is None


def test_a_decision_on_a_laptop_loads_no_heavy_library():
    program = (
        "import sys\n"
        "from mst.stats import cases, decision, intervals, preferences, repeats, bounds, power\n"
        "one, none = cases.TrialCounts(1, 1, 1), cases.TrialCounts(0, 1, 1)\n"
        "decision.decide([cases.CandidateData('x', [cases.CaseData(str(i), none, one) for i in range(100)])])\n"
        "print([name for name in ('numpy', 'scipy', 'pydantic') if name in sys.modules])\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


@pytest.mark.parametrize("trials", [1, 10])
def test_twenty_thousand_cases_are_decided_in_under_a_second(trials):
    cases = [
        CaseData(
            str(index),
            TrialCounts(index * 7 % (trials + 1), trials, trials),
            TrialCounts(0, 0, trials) if index % 10 == 0 else TrialCounts(index * 11 % (trials + 1), trials, trials),
        )
        for index in range(20_000)
    ]
    started = time.process_time()
    decide([CandidateData("x", cases)])
    assert time.process_time() - started < 1.0
