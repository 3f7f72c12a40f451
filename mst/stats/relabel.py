"""What exchanging trials within cases says: the second hurdle of a comparison with unequal trial counts.

Where one side has more trials of a case than the other, +d and -d are not equally likely even when nothing differs: at
one trial against five and rates near 1 the sign-flip test alone calls a useless candidate better in up to one run of
seven. When a candidate makes no difference in any case, though, all of a case's trials are alike, and who did which is
chance: of a case's passed trials, the candidate has a hypergeometric share. That gives the chance of a sum this high,
exactly, whatever the rates. It says nothing about effects that differ by case, for which the sign-flip test stands; so
the larger p of both is taken.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from mst.stats.signflip import EXACT_SUMS
from mst.stats.special import normal_upper_tail


class Labelled(NamedTuple):
    """The trials of one case."""

    candidate_passed: int
    candidate_scored: int
    baseline_passed: int
    baseline_scored: int


class Relabelled(NamedTuple):
    """One-sided p values of the sum of case differences, and the smallest `p_better` that these trials could give."""

    p_better: float
    p_worse: float
    least_better: float


class _Kind(NamedTuple):
    """Cases with equal trial counts and equally many passed trials in all: one distribution."""

    candidate: int
    baseline: int
    passed: int

    @property
    def least(self) -> int:
        """The fewest passed trials that the candidate can have."""
        return max(0, self.passed - self.baseline)

    def ways(self) -> list[int]:
        """To give the candidate each number of passed trials that it can have, from `least` on; each from the last."""
        most = min(self.candidate, self.passed)
        found = [math.comb(self.candidate, self.least) * math.comb(self.baseline, self.passed - self.least)]
        for taken in range(self.least, most):
            more = found[-1] * (self.candidate - taken) * (self.passed - taken)
            found.append(more // ((taken + 1) * (self.baseline - self.passed + taken + 1)))
        return found


def relabel(cases: Iterable[Labelled]) -> Relabelled:
    """Exchange the trials within each case in all ways. Exact up to `EXACT_SUMS` different sums, then normal."""
    listed = list(cases)
    kinds = Counter(
        _Kind(case.candidate_scored, case.baseline_scored, case.candidate_passed + case.baseline_passed)
        for case in listed
    )
    scale = math.lcm(*{count for kind in kinds for count in (kind.candidate, kind.baseline)})
    steps = {kind: scale // kind.candidate + scale // kind.baseline for kind in kinds}
    unit = math.gcd(*steps.values()) or 1
    steps = {kind: step // unit for kind, step in steps.items()}
    # A difference is the candidate's passed trials times a step, less a constant: only the former is chance.
    seen = sum(
        steps[kind] * (case.candidate_passed - kind.least)
        for case in listed
        for kind in [_Kind(case.candidate_scored, case.baseline_scored, case.candidate_passed + case.baseline_passed)]
    )
    ways = {kind: kind.ways() for kind in kinds}
    patterns = {kind: sum(counted) for kind, counted in ways.items()}
    chances = {kind: [way / patterns[kind] for way in counted] for kind, counted in ways.items()}
    reach = sum(steps[kind] * (len(chances[kind]) - 1) * count for kind, count in kinds.items())
    # Of whole numbers: with hundreds of trials a case such a chance is none in floating point.
    least = math.exp(
        sum(count * (math.log(ways[kind][-1]) - math.log(patterns[kind])) for kind, count in kinds.items())
    )
    if reach >= EXACT_SUMS:
        z = _z(kinds, steps, chances, seen)
        return Relabelled(normal_upper_tail(z), normal_upper_tail(-z), least)
    from mst.stats.transform import lattice_tails  # noqa: PLC0415 - loads numpy, which few comparisons need

    groups = [(steps[kind], chances[kind], count) for kind, count in kinds.items()]
    return Relabelled(*lattice_tails(groups, seen), least)


def _z(
    kinds: Mapping[_Kind, int], steps: Mapping[_Kind, int], chances: Mapping[_Kind, list[float]], seen: int
) -> float:
    mean = variance = 0.0
    for kind, count in kinds.items():
        first = sum(taken * chance for taken, chance in enumerate(chances[kind]))
        second = sum(taken * taken * chance for taken, chance in enumerate(chances[kind]))
        mean += count * steps[kind] * first
        variance += count * steps[kind] ** 2 * (second - first * first)
    return (seen - mean) / math.sqrt(variance)
