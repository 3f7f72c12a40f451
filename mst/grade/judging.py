"""From a judge's findings to its score: repetitions, thresholds, spread. Pure."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from typing import Any

from mst.errors import GraderError
from mst.judges.contract import Finding
from mst.model.case import GraderSpec
from mst.model.score import GraderScore, reaches
from mst.providers.spending import total_usage

HIGH_SPREAD = 0.2
"""A standard deviation over repetitions above this is flagged."""


def judged(findings: Sequence[Finding], spec: GraderSpec) -> GraderScore:
    """The score of a judge's repetitions.

    The mean of the scores against the threshold; when the judge gives its own pass, the majority of the repetitions
    instead (one without its own counts by the threshold), and a tie fails. Skipped repetitions are left out; all
    skipped is skipped. The standard deviation is that of the repetitions themselves (population).
    """
    counted = [finding for finding in findings if not finding.skipped]
    name = spec.name or spec.type
    if not counted:
        return skipped(spec, findings[0].reasoning or "the judge skipped it")
    scores = [finding.score for finding in counted if finding.score is not None]
    mean = statistics.fmean(scores)
    last = counted[-1]
    score = GraderScore(
        passed=_passed(counted, mean, spec.threshold),
        details=_details(counted, mean, spec.threshold),
        score=mean,
        reasoning=counted[0].reasoning,
        judge_name=name,
        judge_provider=last.provider,
        judge_model=last.model,
        sub_scores=counted[0].sub_scores,
        usage=total_usage([finding.usage for finding in findings]),
        metadata=counted[0].metadata,
    )
    if len(findings) == 1:
        return score
    spread = statistics.pstdev(scores)
    return score.model_copy(
        update={
            "scores": scores,
            "score_std_dev": spread,
            "high_variance": spread > HIGH_SPREAD,
            "judge_results": [_kept(finding) for finding in findings],
        }
    )


def skipped(spec: GraderSpec, why: str) -> GraderScore:
    """The score of a judge that was not asked, or had nothing to say."""
    return GraderScore(passed=False, skipped=True, details=why, judge_name=spec.name or spec.type)


def check_finding(finding: Finding) -> Finding:
    """Refuse a finding that is none: no score, or one outside 0..1.

    Raises:
        GraderError: with the reason.
    """
    if finding.skipped:
        return finding
    score: Any = finding.score
    if isinstance(score, bool) or not isinstance(score, int | float) or not math.isfinite(score):
        raise GraderError(f"the judge gave no score: {score!r}")
    if not 0 <= score <= 1:
        raise GraderError(f"the judge's score {score!r} is not between 0 and 1")
    if finding.passed is not None and not isinstance(finding.passed, bool):
        raise GraderError(f"the judge's pass {finding.passed!r} is neither true nor false")
    return finding


def _passed(counted: Sequence[Finding], mean: float, threshold: float) -> bool:
    if all(finding.passed is None for finding in counted):
        return reaches(mean, threshold)
    votes = [
        reaches(finding.score or 0.0, threshold) if finding.passed is None else finding.passed for finding in counted
    ]
    return sum(votes) * 2 > len(votes)


def _details(counted: Sequence[Finding], mean: float, threshold: float) -> str:
    own = [finding.passed for finding in counted if finding.passed is not None]
    if own:
        return f"score {mean:.3g}; the judge's own pass: {sum(own)} of {len(own)}"
    return f"score {mean:.3g}, threshold {threshold:g}"


def _kept(finding: Finding) -> dict[str, Any]:
    values = {
        "score": finding.score,
        "pass": finding.passed,
        "skipped": finding.skipped or None,
        "reasoning": finding.reasoning,
        "provider": finding.provider,
        "model": finding.model,
        "metadata": finding.metadata,
        "usage": None if finding.usage is None else finding.usage.to_dict(),
        "subScores": None
        if finding.sub_scores is None
        else {name: part.to_dict() for name, part in finding.sub_scores.items()},
    }
    return {key: value for key, value in values.items() if value is not None}
