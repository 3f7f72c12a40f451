"""Quantiles and tails of the normal, Student t, beta and fair-coin binomial distributions.

Written out here because loading a special-function library takes longer than making a whole small report.
The incomplete beta function is its continued fraction (Abramowitz and Stegun 26.5.8), evaluated from the front.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import lru_cache
from statistics import NormalDist

from mst.errors import InvariantError

_NORMAL = NormalDist()
_TINY = 1e-300
_MAX_TERMS = 100_000


def normal_quantile(probability: float) -> float:
    """The standard normal quantile, 0 < probability < 1."""
    return _NORMAL.inv_cdf(probability)


def two_sided_z(level: float) -> float:
    """How many standard errors a two-sided interval of this level (0..1, exclusive) reaches to each side."""
    return _NORMAL.inv_cdf(0.5 + level / 2)


def normal_upper_tail(z: float) -> float:
    """P(Z >= z); keeps relative precision far out."""
    return math.erfc(z / math.sqrt(2)) / 2


def incomplete_beta(a: float, b: float, x: float) -> float:
    """Regularised incomplete beta function I_x(a, b), a and b > 0, x in 0..1."""
    if x <= 0 or x >= 1:
        return float(x >= 1)
    if x > (a + 1) / (a + b + 2):
        return 1 - incomplete_beta(b, a, 1 - x)
    log_front = math.lgamma(a + b) - math.lgamma(a) - math.lgamma(b) + a * math.log(x) + b * math.log1p(-x)
    return math.exp(log_front) / (a * _beta_fraction(a, b, x))


def _beta_fraction(a: float, b: float, x: float) -> float:
    """The continued fraction 1 + d1/(1 + d2/(1 + ...)) by the modified Lentz recurrence."""
    value, upper, lower = 1.0, 1.0, 0.0
    for step in range(1, _MAX_TERMS):
        half, odd = divmod(step, 2)
        if odd:
            term = -(a + half) * (a + b + half) * x / ((a + 2 * half) * (a + 2 * half + 1))
        else:
            term = half * (b - half) * x / ((a + 2 * half - 1) * (a + 2 * half))
        upper = 1 + term / upper or _TINY
        lower = 1 / (1 + term * lower or _TINY)
        value *= upper * lower
        if abs(upper * lower - 1) < 4e-16:
            return value
    raise InvariantError(f"the incomplete beta function did not converge at a={a}, b={b}, x={x}")


def binomial_upper_tail(successes: int, n: int, probability: float) -> float:
    """P(X >= successes) for X binomial(n, probability)."""
    if successes <= 0:
        return 1.0
    if successes > n:
        return 0.0
    return incomplete_beta(successes, n - successes + 1, probability)


def t_two_sided_p(t: float, df: float) -> float:
    """P(|T| >= |t|) for Student's t with `df` degrees of freedom."""
    return incomplete_beta(df / 2, 0.5, df / (df + t * t))


@lru_cache(maxsize=4096)
def two_sided_t(level: float, df: float) -> float:
    """The t for which P(|T| <= t) = level: the reach of a two-sided t-interval in standard errors."""
    high = 1.0
    while t_two_sided_p(high, df) > 1 - level:
        high *= 2
    return _bisect(lambda t: t_two_sided_p(t, df) <= 1 - level, 0.0, high)


def beta_quantile(probability: float, a: float, b: float) -> float:
    """The x with I_x(a, b) = probability."""
    return _bisect(lambda x: incomplete_beta(a, b, x) >= probability, 0.0, 1.0)


def _bisect(reached: Callable[[float], bool], low: float, high: float) -> float:
    """The smallest point of [low, high], to float precision, where the monotone `reached` holds."""
    for _ in range(200):
        middle = (low + high) / 2
        if middle in (low, high):
            break
        low, high = (low, middle) if reached(middle) else (middle, high)
    return high


def coin_tail(at_least: int, n: int) -> tuple[int, int]:
    """How many of the 2^n outcomes of n fair coins have `at_least` heads or more, as (count, 2^n), in integers."""
    if at_least <= 0:
        return 1 << n, 1 << n
    if at_least > n:
        return 0, 1 << n
    # Sum the shorter side; each coefficient follows from the one before.
    coefficient, total = 1, 0
    heads = max(at_least, n - at_least + 1)
    for tails in range(n - heads + 1):
        total += coefficient
        coefficient = coefficient * (n - tails) // (tails + 1)
    return (total if heads == at_least else (1 << n) - total), 1 << n


def coin_two_sided_p(heads: int, n: int) -> float:
    """Two-sided exact p of `heads` in n fair coins: twice the smaller tail, at most 1. No coin gives 1."""
    count, total = coin_tail(max(heads, n - heads), n)
    return min(1.0, 2 * count / total)
