"""Resampling of cases or families, never of single trials. Imports numpy; loaded only when asked for.

Random numbers are numpy's PCG64 from the seed given: same seed, same result on every machine.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass

import numpy as np

_CHUNK = 1 << 20


@dataclass(frozen=True, slots=True)
class Bootstrap:
    """What the resampled means look like.

    Attributes:
        se: their standard deviation (n - 1).
        low, high: their 2.5 and 97.5 percentiles.
        share_not_positive: share of them at or below 0, compared as floats: resamples that are 0 on paper may fall to
            either side by rounding.
    """

    se: float
    low: float
    high: float
    share_not_positive: float


def bootstrap_mean(
    scores: Sequence[float], families: Sequence[Hashable] | None = None, *, draws: int = 10_000, seed: int
) -> Bootstrap:
    """Resample units with replacement and take the mean over the cases drawn.

    Args:
        scores: one per case, at least one.
        families: the unit of each case; without, a case is a unit. Families are drawn whole, in first-seen order.
        draws: resamples, at least 2.
        seed: of the generator.
    """
    sums, sizes = _units(scores, families)
    generator = np.random.Generator(np.random.PCG64(seed))
    means = np.empty(draws)
    rows = max(1, _CHUNK // len(sums))
    for start in range(0, draws, rows):
        count = min(rows, draws - start)
        drawn = generator.integers(0, len(sums), (count, len(sums)))
        means[start : start + count] = sums[drawn].sum(axis=1) / sizes[drawn].sum(axis=1)
    low, high = np.percentile(means, [2.5, 97.5])
    return Bootstrap(float(means.std(ddof=1)), float(low), float(high), float(np.mean(means <= 0)))


def ideal_se(scores: Sequence[float]) -> float:
    """The standard error that infinitely many resamples of single cases would give: population sd / sqrt(n)."""
    return float(np.std(scores) / np.sqrt(len(scores)))


def _units(scores: Sequence[float], families: Sequence[Hashable] | None) -> tuple[np.ndarray, np.ndarray]:
    if families is None:
        return np.array(scores, dtype=float), np.ones(len(scores))
    sums: dict[Hashable, float] = {}
    sizes: dict[Hashable, int] = {}
    for score, family in zip(scores, families, strict=True):
        sums[family] = sums.get(family, 0.0) + score
        sizes[family] = sizes.get(family, 0) + 1
    return np.array(list(sums.values())), np.array(list(sizes.values()), dtype=float)
