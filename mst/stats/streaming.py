"""A mean with its t-interval from values that come one by one: memory depends on the families, not on the cases."""

from __future__ import annotations

import math
from array import array

from mst.stats.intervals import MeanEstimate, mean_t, t_interval


class StreamedMean:
    """The same estimate as `mean_t` of all values at once.

    A case of its own leaves a running mean and sum of squares (Welford 1962). A family leaves one sum and one count (16
    bytes), since its members may come in any order and the CR1 error needs each family's sum. Families are numbers from
    0 so that many means can share one list of names.
    """

    def __init__(self) -> None:
        self.missing = 0
        self._origin: float | None = None
        self._largest = 0.0
        self._n = 0
        self._mean = 0.0
        self._squares = 0.0
        self._sums = array("d")
        self._counts = array("Q")

    def add(self, value: float | None, family: int | None = None) -> None:
        """Count a value; None is counted as missing and is no zero."""
        if value is None or not math.isfinite(value):
            self.missing += 1
            return
        if self._origin is None:
            self._origin = value
        self._largest = max(self._largest, abs(value))
        moved = value - self._origin
        if family is not None:
            self._add_member(moved, family)
            return
        self._n += 1
        step = moved - self._mean
        self._mean += step / self._n
        self._squares += step * (moved - self._mean)

    def _add_member(self, moved: float, family: int) -> None:
        unseen = family + 1 - len(self._sums)
        if unseen > 0:
            self._sums.extend([0.0] * unseen)
            self._counts.extend([0] * unseen)
        self._sums[family] += moved
        self._counts[family] += 1

    def estimate(self, level: float = 0.95) -> MeanEstimate:
        """The mean of the values so far, with its standard error and t-interval between units."""
        n = self._n + sum(self._counts)
        if self._origin is None:
            return mean_t([None] * self.missing, level=level)
        moved = (self._n * self._mean + math.fsum(self._sums)) / n
        mean, units = self._origin + moved, self._n + sum(count > 0 for count in self._counts)
        se = self._se(moved, n, units)
        return MeanEstimate(mean, se, t_interval(mean, se, units, level), n, units, self.missing)

    def _se(self, moved: float, n: int, units: int) -> float | None:
        """CR1, as in `cluster_se`: squared residual sums of the units around the mean of all values."""
        if units < 2:
            return None
        single = self._squares + self._n * (self._mean - moved) ** 2
        members = zip(self._sums, self._counts, strict=True)
        squares = math.fsum([single, *((total - count * moved) ** 2 for total, count in members)])
        se = math.sqrt(units / (units - 1) * squares) / n
        return se if se > 1e-13 * self._largest else 0.0
