"""Plain summaries of values: percentiles and where the variance of repeated trials sits."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from mst.stats.intervals import cluster_se


@dataclass(frozen=True, slots=True)
class NestedTrials:
    """Trials inside cases.

    Attributes:
        mean: over all trials.
        se_between_cases: over case means: the one to report.
        se_naive_rows: over trials as if they were independent: too small.
        se_cr1_by_case: over trials, clustered by case; equals `se_between_cases` when all cases have as many trials.
        within_case_variance: mean over cases with two or more trials of their trials' sample variance.
        variance_of_case_means: sample variance of the case means.
    All but `mean` are None when there are too few cases or trials for them.
    """

    mean: float
    se_between_cases: float | None
    se_naive_rows: float | None
    se_cr1_by_case: float | None
    within_case_variance: float | None
    variance_of_case_means: float | None


def percentile(values: Sequence[float], percent: float) -> float:
    """Linear interpolation between order statistics, percent in 0..100; needs at least one value."""
    ordered = sorted(values)
    place = (len(ordered) - 1) * percent / 100
    below = math.floor(place)
    above = min(below + 1, len(ordered) - 1)
    return ordered[below] + (ordered[above] - ordered[below]) * (place - below)


def variance(values: Sequence[float]) -> float | None:
    """Sample variance (n - 1); None with fewer than two values."""
    if len(values) < 2:
        return None
    mean = math.fsum(values) / len(values)
    return math.fsum((value - mean) ** 2 for value in values) / (len(values) - 1)


def nested_trials(cases: Sequence[Sequence[float]]) -> NestedTrials:
    """Split the spread of trials into its parts; every case needs at least one trial, and there is at least one."""
    rows = [value for case in cases for value in case]
    owners = [index for index, case in enumerate(cases) for _ in case]
    means = [math.fsum(case) / len(case) for case in cases]
    within = [spread for case in cases if (spread := variance(case)) is not None]
    return NestedTrials(
        math.fsum(rows) / len(rows),
        cluster_se(means)[0],
        cluster_se(rows)[0],
        cluster_se(rows, owners)[0],
        math.fsum(within) / len(within) if within else None,
        variance(means),
    )
