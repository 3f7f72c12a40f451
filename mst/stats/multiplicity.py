"""Corrections for looking at several p values at once. Input order is kept; adjusted values never exceed 1."""

from __future__ import annotations

from collections.abc import Sequence


def holm(p_values: Sequence[float]) -> list[float]:
    """Holm's step-down adjustment: controls the chance of any false finding (Holm 1979)."""
    count = len(p_values)
    adjusted = [0.0] * count
    highest = 0.0
    for rank, index in enumerate(sorted(range(count), key=p_values.__getitem__)):
        highest = max(highest, min(1.0, (count - rank) * p_values[index]))
        adjusted[index] = highest
    return adjusted


def benjamini_hochberg(p_values: Sequence[float]) -> list[float]:
    """Step-up adjustment: controls the expected share of false findings (Benjamini and Hochberg 1995)."""
    count = len(p_values)
    adjusted = [0.0] * count
    lowest = 1.0
    for rank, index in zip(
        range(count, 0, -1), sorted(range(count), key=p_values.__getitem__, reverse=True), strict=True
    ):
        lowest = min(lowest, p_values[index] * count / rank)
        adjusted[index] = lowest
    return adjusted


def bonferroni(p_values: Sequence[float]) -> list[float]:
    """Every p times their number."""
    return [min(1.0, p * len(p_values)) for p in p_values]
