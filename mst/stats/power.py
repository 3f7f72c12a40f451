"""Is there enough data? What a comparison of a given size can see, and what size a wanted effect needs."""

from __future__ import annotations

import math
from dataclasses import dataclass

from mst.errors import UsageError
from mst.stats.compare import Comparison
from mst.stats.special import binomial_upper_tail, coin_tail, normal_quantile

SEARCH_LIMIT = 100_000
_STEADY = 5


@dataclass(frozen=True, slots=True)
class EnoughData:
    """What a finished comparison could have shown.

    Attributes:
        detectable: the smallest true difference that a comparison like this finds with the given power (normal
            approximation, from the spread between units); None when no spread was seen.
        smallest_p: the one-sided p if every decisive unit pointed the same way; with unequal trial counts at least the
            p if every passed trial that may be the candidate's were.
        units_for_effect: units needed to find the wanted difference, from the same spread; None without spread.
        more_trials_add_nothing: every case repeated its result in all trials; more cases are needed, not more trials.
    """

    detectable: float | None
    smallest_p: float
    units_for_effect: int | None
    more_trials_add_nothing: bool


def enough_data(
    comparison: Comparison, *, n_candidates: int = 1, wanted: float = 0.1, power: float = 0.8
) -> EnoughData:
    """Judge the size of a comparison.

    Args:
        comparison: as decided on.
        n_candidates: candidates that share the correction; the level is 0.05 / n_candidates, two-sided.
        wanted: the difference of pass rates worth finding.
        power: chance to find what is there.
    """
    detectable = units = None
    if comparison.se:
        alpha = 0.05 / n_candidates
        detectable = (normal_quantile(1 - alpha / 2) + normal_quantile(power)) * comparison.se
        units = math.ceil(comparison.n_units * (detectable / wanted) ** 2)
    smallest_p = max(2.0**-comparison.decisive_units, comparison.least_better)
    return EnoughData(detectable, smallest_p, units, comparison.one_trial)


def planned_variance(omega2: float, sigma2_a: float, sigma2_b: float, k_a: int, k_b: int) -> float:
    """Variance of one case's difference: omega^2 + sigma_a^2/k_a + sigma_b^2/k_b (Miller 2024).

    Args:
        omega2: variance between cases of the true difference.
        sigma2_a: variance between trials of one case, first side.
        sigma2_b: the same, second side.
        k_a: trials a case, first side.
        k_b: trials a case, second side.
    """
    return omega2 + sigma2_a / k_a + sigma2_b / k_b


def units_required(spread: float, delta: float, alpha: float = 0.05, power: float = 0.8) -> float:
    """Cases (not rounded) with which a true difference `delta` is found: (z_{1-a/2} + z_power)^2 spread / delta^2."""
    return (normal_quantile(1 - alpha / 2) + normal_quantile(power)) ** 2 * spread / delta**2


def minimum_effect(spread: float, n: int, alpha: float = 0.05, power: float = 0.8) -> float:
    """The smallest true difference that n cases find, `spread` being the variance of one case's difference."""
    return (normal_quantile(1 - alpha / 2) + normal_quantile(power)) * math.sqrt(spread / n)


def sign_test_power(decisive: int, p_win: float, alpha: float = 0.05) -> tuple[float, float]:
    """Chance that a two-sided exact sign test rejects, and its actual size (the chance when neither side is better)."""
    least = _rejects_from(decisive, alpha)
    if least > decisive:
        return 0.0, 0.0
    return _rejection(decisive, least, p_win), _rejection(decisive, least, 0.5)


def sign_test_n(p_win: float, alpha: float = 0.05, power: float = 0.8) -> int:
    """Decisive cases that a sign test needs: the first n from which n..n+5 all have the power.

    Six in a row, because power goes up and down from one n to the next.

    Raises:
        UsageError: `p_win` is too near one half: more than `SEARCH_LIMIT` cases.
    """
    edge = abs(p_win - 0.5)
    reach = normal_quantile(1 - alpha / 2) / 2 + normal_quantile(power) * math.sqrt(p_win * (1 - p_win))
    rough = (reach / edge) ** 2 if edge else math.inf
    if rough > SEARCH_LIMIT:
        raise UsageError(f"p_win {p_win}: a share so near one half needs more than {SEARCH_LIMIT:,} decisive cases")
    # The normal approximation is never off by a factor of two, so the search may start below it.
    n = start = max(1, int(rough / 2) - 20)
    least = _rejects_from(start, alpha)
    reached = 0
    while reached <= _STEADY:
        least = _rejects_from(n, alpha, least)
        reached = reached + 1 if least <= n and _rejection(n, least, p_win) >= power else 0
        n += 1
    return n - 1 - _STEADY


def min_decisive(alpha: float = 0.05) -> int:
    """The fewest decisive cases with which a two-sided sign test can reach `alpha`: first m with 2^(1-m) <= alpha."""
    decisive = 1
    while 2.0 ** (1 - decisive) > alpha:
        decisive += 1
    return decisive


def _rejects_from(n: int, alpha: float, at_least: int | None = None) -> int:
    """The fewest wins of n that the two-sided test rejects; n + 1 when none does. `at_least`: a known lower bound."""
    least = at_least if at_least is not None else n // 2 + 1
    if at_least is None:
        step = int(normal_quantile(1 - alpha / 2) * math.sqrt(n) / 2) - 3
        least = max(least, n // 2 + step)
        while least > n // 2 + 1 and 2 * binomial_upper_tail(least - 1, n, 0.5) <= alpha:
            least -= 1
    while least <= n and not _at_most(least, n, alpha):
        least += 1
    return least


def _at_most(least: int, n: int, alpha: float) -> bool:
    """Whether twice the tail is at most alpha; settled in integers when floats cannot tell."""
    doubled = 2 * binomial_upper_tail(least, n, 0.5)
    if abs(doubled - alpha) > 1e-9 * alpha:
        return doubled < alpha
    count, total = coin_tail(least, n)
    return 2 * count / total <= alpha


def _rejection(n: int, least: int, p_win: float) -> float:
    return binomial_upper_tail(least, n, p_win) + binomial_upper_tail(least, n, 1 - p_win)
