"""Strengths of several systems from who beat whom. Imports numpy; loaded only when asked for.

P(i beats j) = 1 / (1 + exp(b_j - b_i)) (Bradley and Terry 1952), strengths adding up to 0, a tie being half a win each.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from mst.stats.intervals import Interval
from mst.stats.special import two_sided_z

_ROUNDS = 200


@dataclass(frozen=True, slots=True)
class Strength:
    """One system. `elo` = 1000 + 400/ln(10) x log strength."""

    log_strength: float
    se: float
    interval: Interval
    elo: float


@dataclass(frozen=True, slots=True)
class PairStrength:
    """Two systems compared: difference of log strengths, and the chance that the first one wins."""

    difference: float
    se: float
    interval: Interval
    p_win: float


@dataclass(frozen=True, slots=True)
class BradleyTerry:
    """The fit. `systems` and `pairs` are empty when there is none; `reason` then says why."""

    systems: Mapping[str, Strength]
    pairs: Mapping[tuple[str, str], PairStrength]
    reason: str = ""


def bradley_terry(systems: Sequence[str], wins: Mapping[tuple[str, str], float]) -> BradleyTerry:
    """Fit strengths by maximum likelihood; standard errors from the Fisher information, intervals of 95%.

    Args:
        systems: at least two names.
        wins: (winner, loser) -> number of wins; add half a win to both for a tie.
    """
    index = {name: place for place, name in enumerate(systems)}
    table = np.zeros((len(systems), len(systems)))
    for (winner, loser), count in wins.items():
        table[index[winner], index[loser]] += count
    if not _connected((table + table.T) > 0):
        return BradleyTerry({}, {}, "not identified: some systems were never compared, even through others")
    if not _connected(table > 0):
        return BradleyTerry({}, {}, "unbounded: some systems never beat any of the others")
    fit = _fit(table)
    if fit is None:
        return BradleyTerry({}, {}, "not computable: the counts of wins are too many orders of magnitude apart")
    strengths, covariance = fit
    reach = two_sided_z(0.95)

    def interval(value: float, se: float) -> Interval:
        return Interval(value - reach * se, value + reach * se, 0.95)

    fitted: dict[str, Strength] = {}
    for name, place in index.items():
        value, se = float(strengths[place]), math.sqrt(covariance[place, place])
        fitted[name] = Strength(value, se, interval(value, se), 1000 + 400 / math.log(10) * value)
    pairs: dict[tuple[str, str], PairStrength] = {}
    for i, first in enumerate(systems):
        for j, second in enumerate(systems[i + 1 :], start=i + 1):
            gap = float(strengths[i] - strengths[j])
            se = math.sqrt(covariance[i, i] + covariance[j, j] - 2 * covariance[i, j])
            pairs[first, second] = PairStrength(gap, se, interval(gap, se), 1 / (1 + math.exp(-gap)))
    return BradleyTerry(fitted, pairs)


def _fit(table: np.ndarray) -> tuple[np.ndarray, np.ndarray] | None:
    """Newton's method on the log likelihood, which is concave; steps are halved until it does not fall.

    Returns:
        Strengths and their covariance; None when floats cannot hold counts that are so far apart.
    """
    strengths = np.zeros(len(table))
    games = table + table.T
    for _ in range(_ROUNDS):
        chance = np.exp(-np.logaddexp(0, strengths[None, :] - strengths[:, None]))
        # chance.T in place of 1 - chance: a small chance keeps its digits.
        gradient = (table * chance.T - table.T * chance).sum(axis=1)
        weight = games * chance * chance.T
        try:
            inverse = _pseudo_inverse(np.diag(weight.sum(axis=1)) - weight)
        except np.linalg.LinAlgError:
            return None
        step = inverse @ gradient
        if np.abs(step).max() < 1e-10:
            return (strengths, inverse) if (np.diag(inverse) > 0).all() else None
        scale = 1.0
        while _log_likelihood(table, strengths + scale * step) < _log_likelihood(table, strengths) - 1e-9:
            scale /= 2
        strengths = strengths + scale * step
        strengths -= strengths.mean()
    return None


def _pseudo_inverse(information: np.ndarray) -> np.ndarray:
    """Of a connected graph's Laplacian, whose only empty direction is the one where all strengths move together."""
    shift = float(np.trace(information)) / len(information) ** 2
    inverse: np.ndarray = np.linalg.inv(information + shift) - 1 / (shift * len(information) ** 2)
    return inverse


def _log_likelihood(table: np.ndarray, strengths: np.ndarray) -> float:
    return float(-(table * np.logaddexp(0, strengths[None, :] - strengths[:, None])).sum())


def _connected(links: np.ndarray) -> bool:
    """Whether every system reaches every other along links, in their direction."""
    return all(_reached(matrix).all() for matrix in (links, links.T))


def _reached(links: np.ndarray) -> np.ndarray:
    reached = np.zeros(len(links), dtype=bool)
    reached[0] = True
    while True:
        grown = reached | links[reached].any(axis=0)
        if (grown == reached).all():
            return reached
        reached = grown
