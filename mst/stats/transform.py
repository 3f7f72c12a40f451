"""Tails of large comparisons through a Fourier transform. Imports numpy; loaded only when needed.

The sum's distribution is the product of its groups' characteristic functions, so one transform gives every probability.
Rounding errors of a transform are about 1e-16 of its highest value, which would drown a small tail. Therefore the
chances are tilted first, so that the bound sits at the middle of the distribution, and untilted afterwards (as for a
saddlepoint approximation, but with the exact distribution): a tail of 1e-40 keeps about ten digits.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence

import numpy as np


def upper_tail(magnitudes: Mapping[int, int], bound: int) -> float:
    """P(T >= bound), T the sum of each size (count times given), each unit taken with chance one half.

    Args:
        magnitudes: size -> count, both > 0. Memory and time grow with the sum of size x count.
        bound: in the unit of the sizes.
    """
    reach = sum(size * count for size, count in magnitudes.items())
    if bound <= 0 or bound > reach:
        return float(bound <= 0)
    if bound == reach:
        return math.ldexp(1.0, -sum(magnitudes.values()))
    tilt = _tilt(magnitudes, bound) if 2 * bound > reach else 0.0
    chances = _tilted_probabilities(magnitudes, reach, tilt)[bound:].clip(min=0.0)
    log_mass = sum(count * (_softplus(tilt * size) - math.log(2)) for size, count in magnitudes.items())
    exponents = log_mass - tilt * np.arange(bound, reach + 1)
    return min(1.0, float(np.sum(chances * np.exp(exponents))))


def lattice_tails(groups: Iterable[tuple[int, Sequence[float], int]], bound: int) -> tuple[float, float]:
    """P(T >= bound) and P(T <= bound), to about 1e-13; T sums independent variables.

    Args:
        groups: a step, the chances of 0, 1, 2, ... steps, and how many variables are like that.
        bound: 0 to the largest sum. Memory and time grow with that sum.
    """
    listed = list(groups)
    reach = sum(step * (len(chances) - 1) * count for step, chances, count in listed)
    length = 1 << (reach + 1).bit_length()
    turns = np.arange(length // 2 + 1)
    spectrum = np.ones(length // 2 + 1, dtype=np.complex128)
    for step, chances, count in listed:
        angle = (turns * step % length) * (-2 * math.pi / length)
        spectrum *= sum(chance * np.exp(1j * taken * angle) for taken, chance in enumerate(chances)) ** count
    found = np.fft.irfft(spectrum, length)[: reach + 1].clip(min=0.0)
    return min(1.0, float(found[bound:].sum())), min(1.0, float(found[: bound + 1].sum()))


def _tilted_probabilities(magnitudes: Mapping[int, int], reach: int, tilt: float) -> np.ndarray:
    """P(T = 0..reach) when a unit of a size is taken with the logistic chance of tilt x size."""
    length = 1 << reach.bit_length()
    turns = np.arange(length // 2 + 1)
    spectrum = np.ones(length // 2 + 1, dtype=np.complex128)
    for size, count in magnitudes.items():
        chance = 1 / (1 + math.exp(-tilt * size))
        # Reduced modulo one turn in integers: the angle of a large product would lose digits.
        angle = (turns * size % length) * (-2 * math.pi / length)
        spectrum *= (1 - chance + chance * np.exp(1j * angle)) ** count
    return np.fft.irfft(spectrum, length)[: reach + 1]


def _tilt(magnitudes: Mapping[int, int], mean: int) -> float:
    """The tilt that moves the mean of the sum to `mean`, which lies between half of the reach and the reach."""
    low, high = 0.0, 700.0 / max(magnitudes)
    for _ in range(60):
        middle = (low + high) / 2
        moved = sum(size * count / (1 + math.exp(-middle * size)) for size, count in magnitudes.items())
        low, high = (middle, high) if moved < mean else (low, middle)
    return low


def _softplus(value: float) -> float:
    """log(1 + e^value), value >= 0, without overflow."""
    return value + math.log1p(math.exp(-value))
