"""What repeated trials of a case say: pass@k (any of k passes) and pass^k (all of k pass), both unbiased."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from mst.stats.intervals import cluster_se


@dataclass(frozen=True, slots=True)
class RepeatRates:
    """Means over cases for one k.

    Attributes:
        pass_at_k, pass_hat_k: unweighted means over the cases with at least k trials; None without such a case.
        pass_at_k_se, pass_hat_k_se: standard errors between those cases; None with fewer than two.
        n_cases: cases with at least k trials.
        too_few: cases left out because they have fewer.
    """

    k: int
    pass_at_k: float | None
    pass_hat_k: float | None
    pass_at_k_se: float | None
    pass_hat_k_se: float | None
    n_cases: int
    too_few: int


def pass_at_k(n: int, passed: int, k: int) -> float | None:
    """Chance that one of k trials drawn from these n passes: 1 - C(n-c,k)/C(n,k) (Chen 2021). None when k > n."""
    if k > n:
        return None
    return 1 - math.comb(n - passed, k) / math.comb(n, k)


def pass_hat_k(n: int, passed: int, k: int) -> float | None:
    """Chance that all of k trials drawn from these n pass: C(c,k)/C(n,k) (Yao 2024). None when k > n."""
    if k > n:
        return None
    return math.comb(passed, k) / math.comb(n, k)


def plug_in(n: int, passed: int, k: int) -> tuple[float, float]:
    """The biased (pass@k, pass^k) that other tools show: the observed rate put to the power of k. n at least 1."""
    rate = passed / n
    return 1 - (1 - rate) ** k, rate**k


def over_cases(cases: Sequence[tuple[int, int]], k: int) -> RepeatRates:
    """Means over cases given as (scored trials, passed trials)."""
    at = [rate for n, passed in cases if (rate := pass_at_k(n, passed, k)) is not None]
    hat = [rate for n, passed in cases if (rate := pass_hat_k(n, passed, k)) is not None]
    return RepeatRates(
        k,
        math.fsum(at) / len(at) if at else None,
        math.fsum(hat) / len(hat) if hat else None,
        cluster_se(at)[0],
        cluster_se(hat)[0],
        len(at),
        len(cases) - len(at),
    )
