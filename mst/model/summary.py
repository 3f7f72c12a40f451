"""`summary.json`: numbers of each variant, and the verdicts on candidates."""

from __future__ import annotations

from typing import Any, ClassVar, Literal

from pydantic import ConfigDict

from mst.model.base import Document, Model
from mst.model.keys import RunId
from mst.model.numbers import (
    EnoughRecord,
    GroupSummary,
    MetricDifference,
    PositionUse,
    Rate,
    RegressionRecord,
    RepeatRate,
)
from mst.model.run import Phases, Selection
from mst.model.transcript import Evidence, Usage
from mst.model.trial import RUN_FORMAT


class PairwiseSummary(Model):
    """A pairwise judge over all cases of one candidate."""

    compared: int
    candidate_wins: int
    baseline_wins: int
    ties: int
    skipped: int
    errors: int
    candidate_win_rate: float | None = None
    decisive_interval: Rate | None = None
    sign_test_p: float | None = None
    consistency: float | None = None
    position: PositionUse | None = None
    dimensions: dict[str, Any] | None = None
    usage: Usage | None = None


class Unmatched(Model):
    """Cases that only one side has."""

    baseline_only: list[str] = []
    candidate_only: list[str] = []


class Pairwise(Model):
    """One pairwise judge's comparison of a candidate with the baseline."""

    baseline: str
    candidate: str
    judge: str
    unmatched: Unmatched
    cases: int
    summary: PairwiseSummary
    usage: Usage | None = None


class Counts(Model):
    """The honest denominator: what stands behind a number."""

    planned: int
    scored: int
    errored: int
    """Without a score: `grading_errors`, `incomplete`, and the rest are infrastructure failures."""
    missing: int
    ungraded: int
    grading_errors: int
    incomplete: int | None = None
    """Trials that left nothing to score, by nobody's fault; None: none."""
    retried: int | None = None
    """Trials whose last attempt replaced others; None: none."""
    superseded: int | None = None
    """Attempts that were replaced: kept, never counted."""


class VerdictRecord(Model):
    """The decision on one candidate, in a word and in numbers."""

    candidate: str
    baseline: str
    verdict: Literal["better", "worse", "no difference shown", "cannot tell"]
    reason: str | None = None
    test: str
    approximate: bool = False
    p_better: float | None = None
    p_better_holm: float | None = None
    p_worse: float | None = None
    level: float
    """Of the interval beside the verdict: 1 - 0.05/k."""
    difference: float | None = None
    interval: Rate | None = None
    cases_compared: int
    cases_unmatched: int
    errored: int
    missing: int
    flips_up: list[str]
    flips_down: list[str]
    regressions: list[str] = []
    """Flips down of cases tagged `regression`."""
    regressions_shown: list[str] = []
    """Those whose fall is evidence by itself (Fisher, Holm over tagged cases)."""
    regression_tests: list[RegressionRecord] = []
    """The tests behind both lists."""
    held_out: dict[str, Any] | None = None
    enough: EnoughRecord | None = None
    metric_differences: dict[str, MetricDifference] = {}
    """Held-out cases excepted, as for the verdict."""
    notes: list[str] = []


class VariantResult(Model):
    """Totals of one variant."""

    total: int
    passed: int
    failed: int
    duration_ms: float
    total_client_usage: Usage | None = None
    total_judge_usage: Usage | None = None


class VariantSummary(Model):
    """One variant over all cases."""

    name: str
    servers: list[str]
    result: VariantResult
    metrics: dict[str, float | None]
    counts: Counts
    pass_rate: float | None = None
    pass_rate_interval: Rate | None = None
    case_pass_rate: float | None = None
    repeats: list[RepeatRate] = []
    """By k, when some case has several scored trials."""
    groups: dict[str, GroupSummary] = {}
    """`capability`, `regression`, `held-out`: those that have cases."""
    evidence: Evidence | None = None
    unavailable_metrics: list[str] | None = None
    cost_source: Literal["client", "pricing", "mixed"] | None = None
    pricing: dict[str, Any] | None = None
    unpriced_models: list[str] | None = None
    pairwise: list[Pairwise] | None = None
    check_counts: dict[str, dict[str, int]] | None = None


class SummaryMetrics(Model):
    """The baseline's headline, under the reference's names; its other metrics stand beside."""

    model_config = ConfigDict(extra="allow")

    total: int
    passed: int
    failed: int
    pass_rate: float | None = None
    incomplete: int | None = None
    collected: int | None = None
    failed_to_collect: int | None = None


class Telemetry(Model):
    """Totals over the run."""

    cases: int
    tool_calls: int
    failed_cases: int
    total_client_usage: Usage | None = None
    total_judge_usage: Usage | None = None
    pairwise_judge_usage: Usage | None = None


class VariantDelta(Model):
    """A candidate against the baseline, as plain differences."""

    pass_rate: float | None = None
    pass_rate_delta: float | None = None
    trial_pass_rate: float | None = None
    trial_pass_rate_delta: float | None = None
    metric_deltas: dict[str, float | None]
    baseline: str


class PreviousRun(Model):
    """How this run differs from the one before it."""

    run_id: str
    timestamp: str
    same_config: bool
    pass_rate: float | None = None
    pass_rate_delta: float | None = None
    variants: dict[str, dict[str, Any]] = {}


class HealthFinding(Model):
    """A sign that a grader cannot be trusted."""

    grader: str
    kind: str
    """`always_passes`, `never_passes`, `often_errors`, `unsteady`, `contradicts_oracle`, `contradicts_noop`,
    `prefers_first`, `prefers_second`, `inconsistent`, `prefers_longer`, `contradict`."""
    said: str
    """The same in a sentence."""
    other: str | None = None
    """The grader that it contradicts."""
    n: int | None = None
    """Of how many."""
    count: int | None = None
    p: float | None = None


class ErrorPolicy(Model):
    """A trial pass rate when trials without a score are counted in other ways. Reports show `exclude`."""

    policy: Literal["exclude"] = "exclude"
    without_score: int
    exclude: float | None = None
    count_as_fail: float | None = None
    lower: float | None = None
    upper: float | None = None


class SummaryRecord(Document):
    """`summary.json`: numbers and verdicts; comparisons are in it."""

    FORMAT: ClassVar[str] = RUN_FORMAT
    KIND: ClassVar[str] = "summary"
    format: Literal["mst.run/v1"] = "mst.run/v1"
    kind: Literal["summary"] = "summary"

    run_id: RunId
    config_id: str
    content_hash: str
    config_name: str
    timestamp: str
    duration_ms: float
    partial: bool | None = None
    selection: Selection | None = None
    selection_hash: str | None = None
    graded: bool | None = None
    collected_at: str | None = None
    baseline: str
    phases: Phases
    variants: list[VariantSummary]
    metrics: SummaryMetrics
    telemetry: Telemetry
    variant_deltas: dict[str, VariantDelta]
    verdicts: list[VerdictRecord]
    grader_errors: dict[str, int] = {}
    health: list[HealthFinding] = []
    error_policy: dict[str, ErrorPolicy] = {}
    """By variant, where trials have no score."""
    warnings: list[str] = []
    looks: int | None = None
    previous_run: PreviousRun | None = None
