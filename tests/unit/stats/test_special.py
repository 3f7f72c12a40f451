"""Own quantiles and tails against SciPy's."""

import math

import pytest
from scipy import special as reference
from scipy import stats

from mst.stats import special


@pytest.mark.parametrize("a", [0.5, 1, 3, 40, 5000])
@pytest.mark.parametrize("b", [0.5, 2, 30, 7000])
@pytest.mark.parametrize("x", [0.0, 1e-9, 0.1, 0.4, 0.5, 0.9, 0.999, 1.0])
def test_incomplete_beta(a, b, x):
    assert special.incomplete_beta(a, b, x) == pytest.approx(reference.betainc(a, b, x), rel=1e-8, abs=1e-12)


@pytest.mark.parametrize("df", [1, 2, 5, 9, 30, 1000, 19_999])
@pytest.mark.parametrize("level", [0.5, 0.9, 0.95, 0.975, 0.999])
def test_t_quantile(df, level):
    assert special.two_sided_t(level, df) == pytest.approx(stats.t.ppf(0.5 + level / 2, df), rel=1e-10)


@pytest.mark.parametrize("t", [-3.0, 0.0, 0.5, 2.0, 40.0])
def test_t_tail(t):
    assert special.t_two_sided_p(t, 7) == pytest.approx(2 * stats.t.sf(abs(t), 7), rel=1e-12)


@pytest.mark.parametrize("z", [-8.0, -1.0, 0.0, 1.96, 12.0, 30.0])
def test_normal_tail_keeps_its_precision_far_out(z):
    assert special.normal_upper_tail(z) == pytest.approx(stats.norm.sf(z), rel=1e-12)


@pytest.mark.parametrize(("p", "a", "b"), [(0.025, 7, 4), (0.975, 1, 30), (1e-6, 3, 3), (0.5, 400, 2)])
def test_beta_quantile(p, a, b):
    assert special.beta_quantile(p, a, b) == pytest.approx(reference.betaincinv(a, b, p), rel=1e-9)


@pytest.mark.parametrize("n", [0, 1, 2, 7, 8])
def test_coin_tail_is_the_count_of_outcomes(n):
    for at_least in range(-1, n + 3):
        expected = sum(math.comb(n, heads) for heads in range(max(0, at_least), n + 1))
        assert special.coin_tail(at_least, n) == (expected, 2**n)


@pytest.mark.parametrize(("heads", "n"), [(0, 0), (0, 6), (3, 6), (9, 10), (120, 300)])
def test_two_sided_coin_p(heads, n):
    expected = stats.binomtest(heads, n).pvalue if n else 1.0
    assert special.coin_two_sided_p(heads, n) == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize(("k", "n", "p"), [(0, 5, 0.3), (6, 5, 0.3), (3, 5, 0.3), (700, 1000, 0.65)])
def test_binomial_tail(k, n, p):
    assert special.binomial_upper_tail(k, n, p) == pytest.approx(stats.binom.sf(k - 1, n, p), rel=1e-9)
