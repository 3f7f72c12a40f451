"""What graders found: scores on trials, preferences between two, and the records a shard worker makes of them."""

from __future__ import annotations

import math
from typing import Any, ClassVar, Literal

from pydantic import Field

from mst.errors import GradingFault
from mst.model.base import Document, Model
from mst.model.keys import ComparisonKey, TrialKey
from mst.model.transcript import Usage
from mst.model.trial import RUN_FORMAT

Side = Literal["baseline", "candidate", "tie"]


def reaches(score: float, threshold: float) -> bool:
    """Whether a score, or a share of what passed, reaches a threshold, but for rounding."""
    return score >= threshold or math.isclose(score, threshold, rel_tol=1e-9)


class SubScore(Model):
    """One part of a score."""

    score: float
    passed: bool | None = Field(default=None, alias="pass")
    reasoning: str | None = None


class CheckResult(Model):
    """One check of a case's own scorer. Informational when it is not graded."""

    name: str
    passed: bool
    graded: bool = True
    detail: str | None = None


class GraderScore(Model):
    """One grader's finding on one trial. `error` set means it gave no verdict; `skipped` that it was not asked."""

    passed: bool = Field(alias="pass")
    details: str = ""
    score: float | None = None
    reasoning: str | None = None
    graded: bool | None = None
    """False when informational: it then counts neither way."""
    judge_name: str | None = None
    judge_provider: str | None = None
    judge_model: str | None = None
    skipped: bool | None = None
    deferred: list[str] | None = None
    """Capabilities that the checks asked for and that are not to be had here."""
    error: str | None = None
    error_kind: GradingFault | None = None
    """Why there is no verdict, in a word; absent when the grader itself failed."""
    sub_scores: dict[str, SubScore] | None = None
    checks: list[CheckResult] | None = None
    metrics: dict[str, float | None] | None = None
    judgments: list[dict[str, Any]] | None = None
    usage: Usage | None = None
    metadata: dict[str, Any] | None = None
    judge_results: list[dict[str, Any]] | None = None
    scores: list[float] | None = None
    """Of each repetition."""
    score_std_dev: float | None = None
    high_variance: bool | None = None
    precision: float | None = None
    recall: float | None = None
    judge_duration_ms: float | None = None

    @property
    def is_verdict(self) -> bool:
        """Whether this stays on a resume: anything but an error."""
        return self.error is None

    @property
    def counts(self) -> bool:
        """Whether it has a say in the trial's pass: a verdict that was not skipped, deferred or informational."""
        return self.is_verdict and not self.skipped and not self.deferred and self.graded is not False


class PairCall(Model):
    """One call of a pairwise judge, mapped back to the sides."""

    order: Literal["baseline_first", "candidate_first"]
    rep: int = 0
    baseline_trial: int
    candidate_trial: int
    preference: Side | None = None
    skipped: bool | None = None
    strength: float | None = None
    reasoning: str | None = None
    dimensions: dict[str, Any] | None = None
    error: str | None = None
    error_kind: GradingFault | None = None
    usage: Usage | None = None
    provider: str | None = None
    model: str | None = None
    metadata: dict[str, Any] | None = None
    judge_duration_ms: float | None = None


class Preference(Model):
    """A pairwise judge's finding on one case."""

    judge: str
    preference: Side | None = None
    strength: float | None = None
    skipped: bool | None = None
    error: str | None = None
    error_kind: GradingFault | None = None
    reasoning: str | None = None
    consistent: bool | None = None
    """Whether the two orders named the same side; None when only one order was asked."""
    dimensions: dict[str, Any] | None = None
    usage: Usage | None = None
    provider: str | None = None
    model: str | None = None
    version: str | None = None
    metadata: dict[str, Any] | None = None
    pairs: list[PairCall] | None = None
    sides_passed: dict[str, bool | None] | None = None
    """What the judge was told of each side's trials, keyed `<side>.<trial>`; a change makes the comparison stale."""
    judge_duration_ms: float | None = None

    @property
    def is_verdict(self) -> bool:
        """Whether this stays on a resume."""
        return self.error is None


class ScoreRecord(Document):
    """`scores/<grader>/<variant>/<case-id>/<trial>.json`."""

    FORMAT: ClassVar[str] = RUN_FORMAT
    KIND: ClassVar[str] = "score"
    format: Literal["mst.run/v1"] = "mst.run/v1"
    kind: Literal["score"] = "score"

    run_id: str
    grader: str
    variant: str
    case_id: str
    trial: int
    trial_digest: str
    identity: str
    score: GraderScore


class PreferenceRecord(Document):
    """`scores/<pairwise judge>/<variant>/<case-id>.json`."""

    FORMAT: ClassVar[str] = RUN_FORMAT
    KIND: ClassVar[str] = "preference"
    format: Literal["mst.run/v1"] = "mst.run/v1"
    kind: Literal["preference"] = "preference"

    run_id: str
    judge: str
    variant: str
    baseline: str
    case_id: str
    trial_digests: list[str]
    identity: str
    preference: Preference


class TrialGrading(Model):
    """Everything that grading one trial found: one entry per grader, keyed by its name in results."""

    key: TrialKey
    trial_digest: str
    scores: dict[str, GraderScore]
    identities: dict[str, str]

    @property
    def errors(self) -> dict[str, str]:
        """Graders that gave no verdict, with why."""
        return {name: score.error for name, score in self.scores.items() if score.error is not None}

    @property
    def passed(self) -> bool | None:
        """True or False by the graders that count; None when a grader gave no verdict or none counts.

        Deferred checks have not passed: with them a trial can fail by another grader, but not pass.
        """
        counting = [score.passed for score in self.scores.values() if score.counts]
        if self.errors or not counting:
            return None
        if all(counting) and any(score.deferred for score in self.scores.values()):
            return None
        return all(counting)


class ComparisonGrading(Model):
    """Everything that comparing one candidate with the baseline on one case found, keyed by judge."""

    key: ComparisonKey
    trial_digests: list[str]
    preferences: dict[str, Preference]
    identities: dict[str, str]

    @property
    def errors(self) -> dict[str, str]:
        """Pairwise judges that gave no verdict, with why."""
        return {name: found.error for name, found in self.preferences.items() if found.error is not None}
