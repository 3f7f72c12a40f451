"""The paired sign-flip test, exact in integers.

Under "the candidate is as good as the baseline" a unit's difference is as likely to be d as -d. The p value is the
share of all sign patterns whose sum is at least as far out as the one seen (Fisher's randomisation test). Differences
are whole numbers here (multiplied by the least common multiple of their denominators): ties between sums are real.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Literal, TypeVar

from mst.stats.special import normal_upper_tail

EXACT_SUMS = 200_000
_INTEGER_WORK_BITS = 5_000_000

Method = Literal["exact", "normal"]
Weight = TypeVar("Weight", int, float)


@dataclass(frozen=True, slots=True)
class SignFlip:
    """What the test found.

    Attributes:
        p_better: one-sided p of the sum being this high or higher.
        p_worse: one-sided p of the sum being this low or lower.
        up: units with a positive difference.
        down: units with a negative difference.
        unchanged: units without one; they do not enter the test.
        method: `exact`, or `normal` when more than `EXACT_SUMS` different sums are possible.
        least_better: a bound below `p_better`, besides the one that follows from the number of decisive units.
    """

    p_better: float
    p_worse: float
    up: int
    down: int
    unchanged: int
    method: Method
    least_better: float = 0.0

    @property
    def decisive(self) -> int:
        """Units that differ, in either direction."""
        return self.up + self.down


def sign_flip(differences: Sequence[int]) -> SignFlip:
    """Test whole-number differences, one per unit, both ways.

    Sums are counted by an upper bound: the range of the sum in its smallest step, or the product over sizes of (how
    many units have that size, plus one), whichever is less. Up to `EXACT_SUMS` of them nothing is approximated.
    """
    magnitudes, positive = _reduced(differences)
    up = sum(difference > 0 for difference in differences)
    down = sum(difference < 0 for difference in differences)
    counts = up, down, len(differences) - up - down
    reach = sum(size * count for size, count in magnitudes.items())
    if _possible_sums(magnitudes) > EXACT_SUMS:
        z = _z(differences)
        return SignFlip(normal_upper_tail(z), normal_upper_tail(-z), *counts, "normal")
    # Flipping every sign mirrors the distribution, so the lower tail is the upper tail of the mirrored sum.
    p_better, p_worse = upper_tails(magnitudes, (positive, reach - positive))
    return SignFlip(p_better, p_worse, *counts, "exact")


def whole_numbers(values: Sequence[Fraction]) -> list[int]:
    """Multiply by the least common multiple of the denominators."""
    scale = math.lcm(*{value.denominator for value in values})
    return [value.numerator * (scale // value.denominator) for value in values]


def extreme_patterns(differences: Sequence[int]) -> tuple[int, int] | None:
    """Of all 2^n sign patterns, how many have a sum at least as far from 0 as the one seen: (extreme, 2^n).

    Zeros count as units with two equal signs. None when the count would take too long to find in integers.
    """
    magnitudes, positive = _reduced(differences)
    if _possible_sums(magnitudes) > EXACT_SUMS or not _fits_integers(magnitudes):
        return None
    reach = sum(size * count for size, count in magnitudes.items())
    decisive = sum(magnitudes.values())
    zeros = len(differences) - decisive
    far = max(positive, reach - positive)
    if 2 * far == reach:
        return 1 << len(differences), 1 << len(differences)
    (count,) = _tail_weights(magnitudes, (far,), _integer_row)
    return 2 * int(count) << zeros, 1 << len(differences)


def upper_tails(magnitudes: Mapping[int, int], bounds: Sequence[int]) -> list[float]:
    """P(T >= bound) for each bound, where T sums each size (count times given) with chance one half.

    Args:
        magnitudes: size of a difference -> how many units have it; sizes > 0.
        bounds: in the unit of the sizes.
    """
    if _fits_integers(magnitudes):
        patterns = 1 << sum(magnitudes.values())
        return [weight / patterns for weight in _tail_weights(magnitudes, bounds, _integer_row)]
    if sum(size * count for size, count in magnitudes.items()) < EXACT_SUMS:
        from mst.stats.transform import upper_tail  # noqa: PLC0415 - loads numpy, which few comparisons need

        return [upper_tail(magnitudes, bound) for bound in bounds]
    return [min(1.0, weight) for weight in _tail_weights(magnitudes, bounds, _probability_row)]


def _reduced(differences: Sequence[int]) -> tuple[dict[int, int], int]:
    """Sizes with their counts, in the smallest common step, and the sum of the positive differences in that step."""
    step = math.gcd(*differences) or 1
    sizes = Counter(abs(difference) // step for difference in differences if difference)
    return dict(sorted(sizes.items())), sum(difference for difference in differences if difference > 0) // step


def _possible_sums(magnitudes: Mapping[int, int]) -> int:
    """An upper bound on the number of different sums; past the limit it only says that it is past."""
    combinations = 1
    for count in magnitudes.values():
        combinations *= count + 1
        if combinations > EXACT_SUMS:
            break
    return min(combinations, 1 + sum(size * count for size, count in magnitudes.items()))


def _fits_integers(magnitudes: Mapping[int, int]) -> bool:
    """Whether counting patterns in whole numbers takes a few milliseconds; past that a transform is faster."""
    sums, reach, steps = 1, 0, 0
    for size, count in magnitudes.items():
        steps += sums * (count + 1)
        reach += size * count
        sums = min(sums * (count + 1), reach + 1)
    return steps * sum(magnitudes.values()) <= _INTEGER_WORK_BITS


def _tail_weights(
    magnitudes: Mapping[int, int], bounds: Sequence[int], row: Callable[[int], list[Weight]]
) -> list[Weight]:
    """The summed weight of all sums at or above each bound, one group of equal sizes after the other."""
    weights: dict[int, Weight] = {0: row(0)[0]}
    for size, count in magnitudes.items():
        grown: dict[int, Weight] = {}
        coefficients = row(count)
        for total, weight in weights.items():
            for times, coefficient in enumerate(coefficients):
                key = total + times * size
                grown[key] = grown.get(key, 0) + weight * coefficient
        weights = grown
    return [sum(weight for total, weight in weights.items() if total >= bound) for bound in bounds]


def _integer_row(count: int) -> list[int]:
    """Binomial coefficients C(count, 0..count)."""
    row = [1]
    for taken in range(count):
        row.append(row[-1] * (count - taken) // (taken + 1))
    return row


def _probability_row(count: int) -> list[float]:
    """The same coefficients over 2^count, as floats."""
    log_all = math.lgamma(count + 1) - count * math.log(2)
    return [math.exp(log_all - math.lgamma(taken + 1) - math.lgamma(count - taken + 1)) for taken in range(count + 1)]


def _z(differences: Sequence[int]) -> float:
    """The sum over its standard deviation; the division is of integers, so that no size overflows."""
    total = sum(differences)
    return math.copysign(math.sqrt(total * total / sum(difference * difference for difference in differences)), total)
