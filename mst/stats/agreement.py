"""Do raters (judges, people) agree more than chance would? And what does a judge's error do to a rate?

Every coefficient is None where chance alone already explains everything (0/0).
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from mst.stats.intervals import Interval
from mst.stats.special import two_sided_z

Scale = Literal["nominal", "ordinal", "interval", "ratio"]
Weights = Literal["unweighted", "linear", "quadratic"]


@dataclass(frozen=True, slots=True)
class Kappa:
    """Cohen's kappa with its parts; None for all with no item."""

    observed: float | None
    expected: float | None
    kappa: float | None


@dataclass(frozen=True, slots=True)
class CorrectedRate:
    """A rate corrected for a judge's known errors.

    Attributes:
        rate: may lie outside 0..1; clip only for display.
        se: by the delta method, with the calibration sets' own uncertainty.
        interval: normal, 95%.
        reason: why all of it is None, if it is.
    """

    rate: float | None
    se: float | None
    interval: Interval
    reason: str = ""


def cohen_kappa(rater1: Sequence[Hashable], rater2: Sequence[Hashable]) -> Kappa:
    """Agreement of two raters on the same items (Cohen 1960)."""
    n = len(rater1)
    if not n:
        return Kappa(None, None, None)
    left, right = Counter(rater1), Counter(rater2)
    observed = sum(a == b for a, b in zip(rater1, rater2, strict=True)) / n
    matches = sum(left[label] * right[label] for label in left)
    return Kappa(
        observed, matches / n**2, (observed - matches / n**2) / (1 - matches / n**2) if matches < n**2 else None
    )


def weighted_kappa(
    rater1: Sequence[Hashable], rater2: Sequence[Hashable], scale: Sequence[Hashable], weights: Weights
) -> float | None:
    """Kappa on an ordered scale: being one step off costs less than two (Cohen 1968)."""
    place = {label: index for index, label in enumerate(scale)}

    def cost(a: Hashable, b: Hashable) -> int:
        apart = abs(place[a] - place[b])
        return min(apart, 1) if weights == "unweighted" else apart if weights == "linear" else apart * apart

    left, right = Counter(rater1), Counter(rater2)
    seen = sum(cost(a, b) for a, b in zip(rater1, rater2, strict=True)) * len(rater1)
    chance = sum(cost(a, b) * left[a] * right[b] for a in left for b in right)
    return 1 - seen / chance if chance else None


def fleiss_kappa(items: Sequence[Sequence[Hashable]]) -> float | None:
    """Agreement of a fixed number of raters, two or more, per item (Fleiss 1971)."""
    if not items:
        return None
    raters = len(items[0])
    labels = Counter(label for item in items for label in item)
    ratings = len(items) * raters
    pairs = sum(count * (count - 1) for item in items for count in Counter(item).values())
    chance = sum(count * count for count in labels.values())
    if chance == ratings * ratings:
        return None
    observed, expected = pairs / (ratings * (raters - 1)), chance / ratings**2
    return (observed - expected) / (1 - expected)


def krippendorff_alpha(raters: Sequence[Sequence[float | str | None]], scale: Scale) -> float | None:
    """Krippendorff's alpha (2011): any number of raters, gaps (None) allowed. Labels must be numbers unless nominal.

    Args:
        raters: one row per rater, all of one length; a column is an item.
        scale: how far two labels are apart.
    """
    shares: dict[tuple[float | str, float | str], float] = {}
    for item in zip(*raters, strict=True):
        labels = Counter(label for label in item if label is not None)
        rated = labels.total()
        if rated < 2:
            continue
        for a, count_a in labels.items():
            for b, count_b in labels.items():
                shares[a, b] = shares.get((a, b), 0.0) + count_a * (count_b - (a == b)) / (rated - 1)
    totals: dict[float | str, float] = {}
    for (a, _), share in shares.items():
        totals[a] = totals.get(a, 0.0) + share
    distance = _distance(scale, totals)
    seen = math.fsum(share * distance(a, b) for (a, b), share in shares.items())
    chance = math.fsum(totals[a] * totals[b] * distance(a, b) for a in totals for b in totals)
    return 1 - (math.fsum(totals.values()) - 1) * seen / chance if chance else None


def _distance(scale: Scale, totals: Mapping[float | str, float]) -> Callable[[float | str, float | str], float]:
    """Squared distance between two labels."""
    if scale == "nominal":
        return lambda a, b: float(a != b)
    numbers = {label: float(label) for label in totals}
    if scale == "interval":
        return lambda a, b: (numbers[a] - numbers[b]) ** 2
    if scale == "ratio":
        return lambda a, b: ((numbers[a] - numbers[b]) / (numbers[a] + numbers[b])) ** 2 if a != b else 0.0
    below: dict[float | str, float] = {}
    running = 0.0
    for label in sorted(totals, key=numbers.__getitem__):
        # The middle of the label's block of ranks: distance is the ratings that lie between two middles.
        below[label] = running + totals[label] / 2
        running += totals[label]
    return lambda a, b: (below[a] - below[b]) ** 2


def judge_corrected_rate(observed: float, n: int, *, tpr: float, n_pos: int, tnr: float, n_neg: int) -> CorrectedRate:
    """The true rate behind a judge's (Rogan and Gladen 1978).

    Args:
        observed: the rate that the judge saw.
        n: trials behind `observed`.
        tpr: share of truly passing trials that the judge passes.
        n_pos: truly passing trials behind `tpr`.
        tnr: share of truly failing trials that the judge fails.
        n_neg: truly failing trials behind `tnr`.
    """
    power = tpr + tnr - 1
    if power <= 0:
        reason = "the judge is no better than chance: true pass rate + true fail rate is at most 1"
        return CorrectedRate(None, None, Interval(None, None, 0.95, reason), reason)
    rate = (observed + tnr - 1) / power
    se = (
        math.sqrt(
            observed * (1 - observed) / n
            + rate**2 * tpr * (1 - tpr) / n_pos
            + (1 - rate) ** 2 * tnr * (1 - tnr) / n_neg
        )
        / power
    )
    reach = two_sided_z(0.95) * se
    return CorrectedRate(rate, se, Interval(rate - reach, rate + reach, 0.95))
