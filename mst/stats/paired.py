"""Other tests on pairs, for `mst stats`. Verdicts use the sign-flip test alone: one comparison, one p value."""

from __future__ import annotations

import math
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from fractions import Fraction

from mst.stats.intervals import MeanEstimate, mean_t
from mst.stats.signflip import sign_flip
from mst.stats.special import coin_tail, normal_upper_tail, t_two_sided_p


@dataclass(frozen=True, slots=True)
class PairedDifference:
    """Differences a - b of two sides measured on the same cases.

    Attributes:
        mean: of the differences, with its t-interval.
        t: mean / standard error; None without spread.
        p_t, p_z: two-sided p by Student's t and by the normal; the latter claims too much with few cases.
        se_unpaired: the standard error if the pairing were ignored; None with fewer than two cases.
        correlation: between the sides; None when a side has no spread.
    """

    mean: MeanEstimate
    t: float | None
    p_t: float | None
    p_z: float | None
    se_unpaired: float | None
    correlation: float | None


@dataclass(frozen=True, slots=True)
class McNemar:
    """McNemar's exact test, two-sided.

    Attributes:
        p_exact: 1 when no case differs.
        p_mid: the mid-p variant: half of the observed outcome's chance is left out.
        numerator, denominator: `p_exact` as a reduced fraction.
    """

    p_exact: float
    p_mid: float
    numerator: int
    denominator: int


def paired_difference(
    a: Sequence[float], b: Sequence[float], families: Sequence[Hashable | None] | None = None
) -> PairedDifference:
    """Compare two sides of equal length by their differences, with families as units where given."""
    mean = mean_t([x - y for x, y in zip(a, b, strict=True)], families)
    t = p_t = p_z = None
    if mean.se and mean.mean is not None:
        t = mean.mean / mean.se
        p_t, p_z = t_two_sided_p(t, mean.n_units - 1), 2 * normal_upper_tail(abs(t))
    spread_a, spread_b = mean_t(a).se, mean_t(b).se
    unpaired = math.hypot(spread_a, spread_b) if spread_a is not None and spread_b is not None else None
    return PairedDifference(mean, t, p_t, p_z, unpaired, _correlation(a, b))


def mcnemar(only_a: int, only_b: int) -> McNemar:
    """Exact test of the cases that only one side passed; cases that agree do not enter."""
    n = only_a + only_b
    tail, total = coin_tail(max(only_a, only_b), n)
    p = min(Fraction(1), Fraction(2 * tail, total))
    mid = min(1.0, (2 * tail - math.comb(n, only_a)) / total) if n else 1.0
    return McNemar(float(p), mid, p.numerator, p.denominator)


def wilcoxon(differences: Sequence[Fraction]) -> tuple[float, float]:
    """Signed-rank test: (the smaller rank sum, two-sided p by flipping signs of the ranks).

    Zeros are left out; equal sizes share their middle rank, and p stays exact.
    """
    decisive = [difference for difference in differences if difference]
    order = sorted(abs(difference) for difference in decisive)
    first: dict[Fraction, int] = {}
    last: dict[Fraction, int] = {}
    for rank, size in enumerate(order, start=1):
        first.setdefault(size, rank)
        last[size] = rank
    # Twice the middle rank, so that halves stay whole numbers.
    ranks = [
        (first[abs(difference)] + last[abs(difference)]) * (1 if difference > 0 else -1) for difference in decisive
    ]
    flips = sign_flip(ranks)
    smaller = min(sum(rank for rank in ranks if rank > 0), -sum(rank for rank in ranks if rank < 0))
    return smaller / 2, min(1.0, 2 * min(flips.p_better, flips.p_worse))


def _correlation(a: Sequence[float], b: Sequence[float]) -> float | None:
    if len(a) < 2:
        return None
    mean_a, mean_b = math.fsum(a) / len(a), math.fsum(b) / len(b)
    spread_a = math.fsum((x - mean_a) ** 2 for x in a)
    spread_b = math.fsum((y - mean_b) ** 2 for y in b)
    if not spread_a or not spread_b:
        return None
    return math.fsum((x - mean_a) * (y - mean_b) for x, y in zip(a, b, strict=True)) / math.sqrt(spread_a * spread_b)
