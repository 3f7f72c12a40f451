"""The verdict rule: better, worse, no difference shown, or cannot tell.

*Better* must hold over all candidates of the run together (Holm). *Worse* is an alarm and deliberately uncorrected:
with k candidates the chance of at least one false alarm is up to k x 2.5%. *Cannot tell* means that the data could not
have shown a difference, or that a verdict would rest on guesses about trials that have none.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from mst.stats.cases import CandidateData, CaseData
from mst.stats.compare import Comparison, Fill, compare, flip_test
from mst.stats.multiplicity import holm
from mst.stats.regression import RegressionCheck, check_regressions
from mst.stats.signflip import SignFlip

LEVEL = 0.025
"""One-sided level of both directions."""
MISSING_SHARE = 0.05
"""Share of a side's planned trials that may lack a verdict before the verdict is checked against them."""

Word = Literal["better", "worse", "no difference shown", "cannot tell"]
ReasonCode = Literal["", "too_few", "missing_data", "treatment_unused"]


@dataclass(frozen=True, slots=True)
class Verdict:
    """The decision on one candidate.

    Attributes:
        variant: the candidate.
        word: the verdict.
        reason_code: why it is *cannot tell*; empty for the other words.
        reason: the same in words, without a full stop; empty for the other words.
        p_better_holm: `comparison.p_better` adjusted over all candidates of the run; *better* when under `level`.
        level: what p values are held against.
        n_candidates: k, the number of candidates that share the correction.
        decisive_needed: the fewest decisive units that can reach the level, all in one direction.
        comparison: the cases that were decided on. Its interval has level 1 - 0.05/k.
        held_out: the cases tagged `held-out`, which did not enter the decision; None when there are none.
        regressions: tests of the cases tagged `regression` (held-out ones excepted), broken ones first.
    """

    variant: str
    word: Word
    reason_code: ReasonCode
    reason: str
    p_better_holm: float
    level: float
    n_candidates: int
    decisive_needed: int
    comparison: Comparison
    held_out: Comparison | None
    regressions: tuple[RegressionCheck, ...]

    def __str__(self) -> str:
        return f"{self.word} ({self.reason})" if self.reason else self.word


def decide(candidates: Sequence[CandidateData]) -> list[Verdict]:
    """Decide on all candidates of one run, in the order given.

    All of them must be passed at once: the correction depends on their number.
    """
    decided = [[case for case in candidate.cases if not case.held_out] for candidate in candidates]
    interval_level = 1 - 2 * LEVEL / max(1, len(candidates))
    comparisons = [compare(cases, interval_level) for cases in decided]
    adjusted = holm([comparison.p_better for comparison in comparisons])
    words = _words([_Evidence(c.p_better, c.p_worse, c.decisive_units, c.least_better) for c in comparisons])
    shaken = _changed_by_missing(decided, comparisons, words)
    verdicts = []
    for candidate, cases, comparison, p_holm, word, moved in zip(
        candidates, decided, comparisons, adjusted, words, shaken, strict=True
    ):
        code = _reason_code(candidate, word, moved=moved)
        verdicts.append(
            Verdict(
                variant=candidate.variant,
                word="cannot tell" if code else word,
                reason_code=code,
                reason=_reason(code, candidate, comparison, decisive_needed(len(candidates))),
                p_better_holm=p_holm,
                level=LEVEL,
                n_candidates=len(candidates),
                decisive_needed=decisive_needed(len(candidates)),
                comparison=comparison,
                held_out=_held_out(candidate, interval_level),
                regressions=check_regressions(cases),
            )
        )
    return verdicts


def decisive_needed(n_candidates: int) -> int:
    """The fewest decisive units with which *better* can be said: the first m with 2^-m under LEVEL / candidates."""
    units = 1
    while 2.0**-units >= LEVEL / max(1, n_candidates):
        units += 1
    return units


@dataclass(frozen=True, slots=True)
class _Evidence:
    p_better: float
    p_worse: float
    decisive: int
    least_better: float

    def could_show(self, n_candidates: int) -> bool:
        """Whether these units and trials could have given *better*."""
        enough = self.decisive >= decisive_needed(n_candidates)
        return enough and self.least_better < LEVEL / max(1, n_candidates)


def _words(evidence: Sequence[_Evidence]) -> list[Word]:
    """The words that follow from the tests alone."""
    words: list[Word] = []
    for item, p_holm in zip(evidence, holm([item.p_better for item in evidence]), strict=True):
        if p_holm < LEVEL:
            words.append("better")
        elif item.p_worse < LEVEL:
            words.append("worse")
        else:
            words.append("no difference shown" if item.could_show(len(evidence)) else "cannot tell")
    return words


def _changed_by_missing(
    decided: Sequence[Sequence[CaseData]], comparisons: Sequence[Comparison], words: Sequence[Word]
) -> list[bool]:
    """For which candidates too much is missing, and counting it one way or the other changes the word."""
    lacking = [
        max(comparison.baseline.unscored_share, comparison.candidate.unscored_share) > MISSING_SHARE
        for comparison in comparisons
    ]
    changed = [False] * len(words)
    if not any(lacking):
        return changed
    fills: tuple[Fill, ...] = ("against", "for")
    for fill in fills:
        # The whole run is decided again: the baseline's missing trials are missing for every candidate.
        others = _words([_evidence(flip_test(cases, fill)) for cases in decided])
        changed = [before or word != other for before, word, other in zip(changed, words, others, strict=True)]
    return [lack and change for lack, change in zip(lacking, changed, strict=True)]


def _evidence(flips: SignFlip) -> _Evidence:
    return _Evidence(flips.p_better, flips.p_worse, flips.decisive, flips.least_better)


def _reason_code(candidate: CandidateData, word: Word, *, moved: bool) -> ReasonCode:
    """The first reason that applies: nothing that an unused treatment shows is about the treatment."""
    if candidate.treatment_unused is not None:
        return "treatment_unused"
    if word == "cannot tell":
        return "too_few"
    return "missing_data" if moved else ""


def _reason(code: ReasonCode, candidate: CandidateData, comparison: Comparison, needed: int) -> str:
    if code == "treatment_unused":
        return f"treatment never took effect: {candidate.treatment_unused}"
    if code == "missing_data":
        sides = comparison.baseline, comparison.candidate
        return f"{sum(side.errored for side in sides)} errored, {sum(side.missing for side in sides)} missing"
    if code != "too_few":
        return ""
    if not comparison.n_cases:
        return "no case has a scored trial on both sides"
    if comparison.decisive_units >= needed:
        return "with unequal numbers of trials a side these cases cannot reach the level; give both sides equally many"
    unit = "case differs" if comparison.n_units == comparison.n_cases else "case or family differs"
    if comparison.decisive_units != 1:
        unit = unit.replace("case differs", "cases differ").replace(
            "case or family differs", "cases or families differ"
        )
    return f"{comparison.decisive_units} {unit}, at least {needed} must"


def _held_out(candidate: CandidateData, level: float) -> Comparison | None:
    cases = [case for case in candidate.cases if case.held_out]
    return compare(cases, level) if cases else None
