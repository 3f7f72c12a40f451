"""A candidate and its baseline on the same cases: differences, the paired test, an interval, who went up and down."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Literal, NamedTuple

from mst.stats.cases import CaseData, SideTotals, totals, unit_sums
from mst.stats.intervals import Interval, mean_t
from mst.stats.relabel import Labelled, relabel
from mst.stats.signflip import SignFlip, sign_flip

Fill = Literal["none", "against", "for"]
"""What trials without a verdict count as: nothing; candidate failed and baseline passed; the reverse."""

NOTHING_COMPARED = "no case has a scored trial on both sides"


@dataclass(frozen=True, slots=True)
class Comparison:
    """One candidate against the baseline over a set of cases. A finding, not yet a verdict.

    Attributes:
        n_cases: cases compared: both sides have a scored trial.
        n_units: the same with a family counted once; the test flips units.
        unmatched: cases left out because a side has no scored trial.
        baseline, candidate: trials of all cases, compared or not: planned, scored, errored, missing.
        difference: mean over compared cases of (candidate's share passed - baseline's); None when none was compared.
        se: standard error of `difference` between units; None with fewer than two units.
        interval: t-interval of `difference` between units, inside -1..1.
        p_better, p_worse: one-sided sign-flip p values, uncorrected. 1 when nothing was compared.
        units_up, units_down: units with a difference; their sum is the number of decisive units.
        cases_up, cases_down: case IDs; those tagged `regression` first, then in the order given.
        test: the test by name, for the reader.
        least_better: the smallest `p_better` that relabelling these trials could give; 0 with equal trial counts.
        approximate: p is not exact: trial counts differ between the sides, or there are too many sums to count.
        one_trial: every case had the same result in all its trials on each side: more trials add nothing, and the
            comparison stands on one trial a case.
    """

    n_cases: int
    n_units: int
    unmatched: int
    baseline: SideTotals
    candidate: SideTotals
    difference: float | None
    se: float | None
    interval: Interval
    p_better: float
    p_worse: float
    units_up: int
    units_down: int
    cases_up: tuple[str, ...]
    cases_down: tuple[str, ...]
    test: str
    least_better: float
    approximate: bool
    one_trial: bool

    @property
    def decisive_units(self) -> int:
        """Units with a difference, in either direction."""
        return self.units_up + self.units_down


class Pair(NamedTuple):
    """One compared case, with whole-number counts."""

    case: CaseData
    baseline_passed: int
    baseline_scored: int
    candidate_passed: int
    candidate_scored: int


def pairs(cases: Sequence[CaseData], fill: Fill = "none") -> Iterator[Pair]:
    """The cases that both sides scored, with trials that lack a verdict counted as `fill` says."""
    for case in cases:
        baseline, candidate = case.baseline, case.candidate
        if fill == "none":
            pair = Pair(case, baseline.passed, baseline.scored, candidate.passed, candidate.scored)
        else:
            lucky, unlucky = (baseline, candidate) if fill == "against" else (candidate, baseline)
            gained = lucky.planned - lucky.scored + lucky.passed
            passed = (gained, unlucky.passed) if fill == "against" else (unlucky.passed, gained)
            pair = Pair(case, passed[0], baseline.planned, passed[1], candidate.planned)
        if pair.baseline_scored and pair.candidate_scored:
            yield pair


def whole_differences(compared: Sequence[Pair]) -> tuple[list[int], int]:
    """Differences of the shares passed, times the least common multiple of all trial counts; and that multiple."""
    scale = math.lcm(*{pair.baseline_scored for pair in compared}, *{pair.candidate_scored for pair in compared})
    differences = [
        pair.candidate_passed * (scale // pair.candidate_scored)
        - pair.baseline_passed * (scale // pair.baseline_scored)
        for pair in compared
    ]
    return differences, scale


def families_of(compared: Sequence[Pair]) -> list[str | None] | None:
    """The family of each compared case; None when no case has one."""
    families = [pair.case.family for pair in compared]
    return families if any(family is not None for family in families) else None


def flip_test(cases: Sequence[CaseData], fill: Fill = "none") -> SignFlip:
    """The sign-flip test alone, with trials that lack a verdict counted as `fill` says."""
    compared = list(pairs(cases, fill))
    differences, _ = whole_differences(compared)
    return _paired_test(compared, unit_sums(differences, families_of(compared)))


def _one_trial(compared: Sequence[Pair]) -> bool:
    """Whether every case repeated its result in all its trials, on each side: one trial of it says the same."""
    return all(
        pair.baseline_passed in (0, pair.baseline_scored) and pair.candidate_passed in (0, pair.candidate_scored)
        for pair in compared
    )


def _unequal(compared: Sequence[Pair]) -> bool:
    """Whether the comparison stands on unequal numbers of trials."""
    counts_differ = any(pair.baseline_scored != pair.candidate_scored for pair in compared)
    return counts_differ and not _one_trial(compared)


def _paired_test(compared: Sequence[Pair], units: Sequence[int]) -> SignFlip:
    """The sign-flip test of the units; with unequal trial counts also what relabelling says, the larger p of both."""
    flips = sign_flip(units)
    if not _unequal(compared):
        return flips
    other = relabel(
        Labelled(pair.candidate_passed, pair.candidate_scored, pair.baseline_passed, pair.baseline_scored)
        for pair in compared
    )
    return replace(
        flips,
        p_better=max(flips.p_better, other.p_better),
        p_worse=max(flips.p_worse, other.p_worse),
        least_better=other.least_better,
    )


def compare(cases: Sequence[CaseData], level: float = 0.95) -> Comparison:
    """Compare both sides on these cases; the interval has the given level."""
    compared = list(pairs(cases))
    differences, scale = whole_differences(compared)
    families = families_of(compared)
    units = unit_sums(differences, families)
    flips = _paired_test(compared, units)
    mean = mean_t([difference / scale for difference in differences], families, level)
    one_trial = _one_trial(compared)
    unequal = _unequal(compared)
    return Comparison(
        n_cases=len(compared),
        n_units=len(units),
        unmatched=len(cases) - len(compared),
        baseline=totals([case.baseline for case in cases]),
        candidate=totals([case.candidate for case in cases]),
        difference=mean.mean,
        se=mean.se,
        interval=mean.interval.clipped(-1, 1) if compared else Interval(None, None, level, NOTHING_COMPARED),
        p_better=flips.p_better,
        p_worse=flips.p_worse,
        units_up=flips.up,
        units_down=flips.down,
        cases_up=_ordered(compared, [difference > 0 for difference in differences]),
        cases_down=_ordered(compared, [difference < 0 for difference in differences]),
        test=_test_name(flips, one_trial=one_trial, families=len(units) < len(compared), unequal=unequal),
        least_better=flips.least_better,
        approximate=flips.method != "exact" or unequal,
        one_trial=one_trial and any(max(pair.baseline_scored, pair.candidate_scored) > 1 for pair in compared),
    )


def _ordered(compared: Sequence[Pair], chosen: Sequence[bool]) -> tuple[str, ...]:
    cases = [pair.case for pair, take in zip(compared, chosen, strict=True) if take]
    return tuple(case.case_id for case in sorted(cases, key=lambda case: not case.regression))


def _test_name(flips: SignFlip, *, one_trial: bool, families: bool, unequal: bool) -> str:
    if flips.method == "normal":
        name = "paired sign-flip test, normal approximation"
    elif one_trial and not families:
        name = "exact McNemar test"
    else:
        name = "exact paired sign-flip test"
    name += ", one-sided"
    if families:
        name += ", families flipped as one"
    return f"{name}; trials exchanged within cases, larger p" if unequal else name
