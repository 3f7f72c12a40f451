"""What repeated trials of a case say: pass@k (any of k passes) and pass^k (all of k pass), both unbiased."""

from __future__ import annotations

import math
from collections.abc import Hashable, Sequence
from dataclasses import dataclass

from mst.stats.intervals import Interval, cluster_se, t_interval


@dataclass(frozen=True, slots=True)
class RepeatRates:
    """Means over cases for one k.

    Attributes:
        pass_at_k, pass_hat_k: unweighted means over the cases with at least k trials; None without such a case.
        pass_at_k_se, pass_hat_k_se: standard errors between those cases or their families; None with fewer than two.
        n_cases: cases with at least k trials.
        n_units: the same with a family counted once.
        too_few: cases left out because they have fewer.
    """

    k: int
    pass_at_k: float | None
    pass_hat_k: float | None
    pass_at_k_se: float | None
    pass_hat_k_se: float | None
    n_cases: int
    n_units: int
    too_few: int

    def at_interval(self, level: float = 0.95) -> Interval:
        """The t-interval of `pass_at_k`, inside 0..1."""
        return _interval(self.pass_at_k, self.pass_at_k_se, self.n_units, level)

    def hat_interval(self, level: float = 0.95) -> Interval:
        """The t-interval of `pass_hat_k`, inside 0..1."""
        return _interval(self.pass_hat_k, self.pass_hat_k_se, self.n_units, level)


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


def over_cases(
    cases: Sequence[tuple[int, int]], k: int, families: Sequence[Hashable | None] | None = None
) -> RepeatRates:
    """Means over cases given as (scored trials, passed trials), each perhaps of a family; k is at least 1."""
    kept = [index for index, (n, _) in enumerate(cases) if n >= k]
    at = [1 - math.comb(n - passed, k) / math.comb(n, k) for n, passed in (cases[index] for index in kept)]
    hat = [math.comb(passed, k) / math.comb(n, k) for n, passed in (cases[index] for index in kept)]
    groups = [families[index] for index in kept] if families is not None else None
    at_se, units = cluster_se(at, groups)
    return RepeatRates(
        k,
        math.fsum(at) / len(at) if at else None,
        math.fsum(hat) / len(hat) if hat else None,
        at_se,
        cluster_se(hat, groups)[0],
        len(at),
        units,
        len(cases) - len(at),
    )


def shown_k(most: int) -> list[int]:
    """The k worth a row when a case has at most this many trials: 1, 2, 3, 5, 10, 20, ... and all of them."""
    steps = [1, 2, 3, *(step * 10**power for power in range(len(str(most))) for step in (5, 10, 20))]
    return sorted({k for k in (*steps, most) if 1 <= k <= most})


def _interval(mean: float | None, se: float | None, units: int, level: float) -> Interval:
    if mean is None:
        return Interval(None, None, level, "no case has enough trials")
    return t_interval(mean, se, units, level).clipped(0, 1)
