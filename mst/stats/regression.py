"""Has one case broken? Fisher's exact test on the trials of each case tagged `regression`, Holm over those cases.

With few trials a fall cannot be told from bad luck, however clear it looks: then it stays a flip, with the number of
trials that would make it evidence.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from mst.stats.cases import CaseData
from mst.stats.multiplicity import holm

LEVEL = 0.05


@dataclass(frozen=True, slots=True)
class RegressionCheck:
    """One tagged case under one candidate.

    Attributes:
        baseline_passed, baseline_scored, candidate_passed, candidate_scored: its trials.
        p: one-sided p of the candidate passing this rarely.
        p_holm: the same, adjusted over the candidate's tagged cases.
        broken: `p_holm` is under `LEVEL`: the fall is evidence.
        flipped: the candidate's pass rate is lower here, evidence or not.
        trials_needed: when either side had too few trials for even the clearest fall to be evidence, how many each side
            needs; else None.
    """

    case_id: str
    baseline_passed: int
    baseline_scored: int
    candidate_passed: int
    candidate_scored: int
    p: float
    p_holm: float
    broken: bool
    flipped: bool
    trials_needed: int | None


def fisher_lower(passed: int, n: int, passed_reference: int, n_reference: int) -> float:
    """One-sided exact p that `passed` of n is this low, given the margins of both samples (hypergeometric tail)."""
    passes, everything = passed + passed_reference, n + n_reference
    lowest = max(0, passes - n_reference)
    ways = sum(math.comb(n, count) * math.comb(n_reference, passes - count) for count in range(lowest, passed + 1))
    return ways / math.comb(everything, passes)


def trials_needed(n_cases: int, level: float = LEVEL) -> int:
    """Trials a side at which a fall from all passed to none is evidence, with Holm over `n_cases` (at least 1)."""
    trials = 1
    while math.comb(2 * trials, trials) * level <= n_cases:
        trials += 1
    return trials


def check_regressions(cases: Sequence[CaseData]) -> tuple[RegressionCheck, ...]:
    """Test every case tagged `regression` that both sides scored; the clearest falls first, ties in case order."""
    tagged = [case for case in cases if case.regression and case.baseline.scored and case.candidate.scored]
    if not tagged:
        return ()
    p_values = [
        fisher_lower(case.candidate.passed, case.candidate.scored, case.baseline.passed, case.baseline.scored)
        for case in tagged
    ]
    needed = trials_needed(len(tagged))
    checks = [_check(case, p, p_holm, needed) for case, p, p_holm in zip(tagged, p_values, holm(p_values), strict=True)]
    return tuple(sorted(checks, key=lambda check: (not check.broken, not check.flipped, check.p)))


def _check(case: CaseData, p: float, p_holm: float, needed: int) -> RegressionCheck:
    baseline, candidate = case.baseline, case.candidate
    return RegressionCheck(
        case.case_id,
        baseline.passed,
        baseline.scored,
        candidate.passed,
        candidate.scored,
        p,
        p_holm,
        broken=p_holm < LEVEL,
        flipped=candidate.passed * baseline.scored < baseline.passed * candidate.scored,
        trials_needed=needed if min(baseline.scored, candidate.scored) < needed else None,
    )
