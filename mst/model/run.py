"""`run.json`, `results.json`, `summary.json` and `latest.json` of a run folder."""

from __future__ import annotations

from typing import Any, ClassVar, Literal

from pydantic import ConfigDict, Field

from mst.model.base import Document, Model
from mst.model.case import DatasetRecord, EvalPlan
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
from mst.model.score import CheckResult, GraderScore
from mst.model.transcript import Evidence, Transcript, Usage
from mst.model.trial import RUN_FORMAT

Phase = Literal["complete", "partial", "skipped", "failed"]


class MstVersion(Model):
    """Which mst wrote a document."""

    version: str


class Environment(Model):
    """The runner of the collect phase, under the reference's name for it, and the machine."""

    name: str
    shards: int
    keep: Literal["failed", "always"] | None = None
    options: dict[str, Any] | None = None
    node: str
    """`python <version>`."""
    platform: str
    ci: bool


class ShardMachine(Model):
    """One shard's machine, and how the shard ended."""

    shard: int
    id: str | None = None
    image: str | None = None
    mst: str | None = None
    started_at: str | None = None
    ended_at: str | None = None
    attempts: list[str] = []
    ok: bool
    reason: str | None = None


class GradingRunner(Model):
    """Where a grading ran. Differs between runners, as no other part of a regrade does."""

    name: str
    options: dict[str, Any] | None = None
    shards: int
    machines: list[ShardMachine] = []
    dispatches: list[str] | None = None


class Grading(Model):
    """How a run was graded."""

    model_config = ConfigDict(use_attribute_docstrings=True)

    runner: GradingRunner
    reused_from: RunId | None = None
    """The grading whose verdicts were taken where case, trial and grader are the same."""


class Phases(Model):
    """How far each phase came."""

    collect: Phase
    grade: Phase


class VariantRecord(Model):
    """A variant as recorded: credential-like values replaced by a per-run HMAC."""

    name: str
    description: str | None = None
    servers: list[str] | dict[str, Any] | None = None
    client: str | None = None
    model: str | None = None
    client_options: dict[str, Any] | None = None
    tools: dict[str, Any] | None = None
    input_template: str | None = None
    judges: list[str] | None = None


class GraderRecord(Model):
    """A grader with its identity. `level` is `config`, `case`, `variant:<name>` or `pairwise`."""

    type: str
    level: str
    name: str | None = None
    options_hash: str
    identity: str
    plugin: str | None = None
    plugin_version: str | None = None
    model: str | None = None
    prompt_hash: str | None = None
    version: str | None = None


class TrialOrder(Model):
    """The order in which trials were started: derived from the seed alone, so the seed is the record."""

    policy: Literal["seeded-interleaved-v1"] = "seeded-interleaved-v1"
    seed: int


class Selection(Model):
    """How a run was narrowed."""

    variants: list[str] | None = None
    cases: list[str] | None = None
    filter_tags: list[str] | None = None
    max_cases: int | None = None
    sample: int | None = None
    seed: int | None = None
    trials: int | None = None
    only: list[str] | None = None


class RunRecord(Document):
    """`run.json`: what was run, with what, where, and how far it came."""

    model_config = ConfigDict(use_attribute_docstrings=True)

    FORMAT: ClassVar[str] = RUN_FORMAT
    KIND: ClassVar[str] = "run"
    format: Literal["mst.run/v1"] = "mst.run/v1"
    kind: Literal["run"] = "run"

    run_id: RunId
    eval_name: str
    config_id: str
    content_hash: str
    created_at: str
    finished_at: str | None = None
    mst: MstVersion
    baseline: str
    variants: list[VariantRecord]
    datasets: list[DatasetRecord]
    judges: list[GraderRecord]
    graders: list[GraderRecord] = []
    """All graders, assertions included; `judges` is the reference's shorter list."""
    partial: bool = False
    """Narrowed at run time."""
    selection: Selection | None = None
    redact_stored_responses: bool = False
    graded_from: RunId | None = None
    environment: Environment
    phases: Phases
    grading: Grading | None = None
    order: TrialOrder
    config_path: str | None = None
    plan: EvalPlan
    """The resolved eval config; its cases are in `inputs/cases.jsonl`."""
    cases_hash: str
    """SHA-256 over the cases in order, without their judges."""
    hmac_key: str
    """Key of the per-run HMAC that replaces credential-like values; a regrade takes its source's."""
    looks: int | None = None
    """Times that this data was extended after a look at it."""


class CallTrace(Model):
    """Tool calls of a trial in short."""

    calls: list[dict[str, Any]] = []
    missed: list[dict[str, Any]] = []


class TrialResult(Model):
    """One trial as `results.json` shows it."""

    trial: int
    passed: bool | None = Field(default=None, alias="pass")
    scores: dict[str, GraderScore]
    duration_ms: float
    error: str | None = None
    grading_error: str | None = None
    is_infrastructure_error: bool | None = None
    failure_kind: str | None = None
    error_kind: str | None = None
    limit_hit: str | None = None
    ungraded: bool | None = None
    tool_call_trace: CallTrace | None = None
    client_diagnostics: dict[str, Any] | None = None
    transcript_evidence: Evidence | None = None
    client_usage: Usage | None = None
    judge_usage: Usage | None = None
    skill_loads: list[str] | None = None
    client_telemetry: dict[str, Any] | None = None
    client_metadata: dict[str, Any] | None = None


class CaseRequest(Model):
    """What a case asked for."""

    description: str
    tool_variant_id: str
    trials: int
    pass_threshold: float
    judge_reps: int | None = None
    tags: list[str] = []
    assertions: list[str] = []
    judges: list[str] = []
    args: dict[str, Any] | None = None
    input: Any = None
    reference: Any = None
    client: str
    model: str | None = None


class CaseResult(Model):
    """One case for one variant."""

    model_config = ConfigDict(use_attribute_docstrings=True)

    id: str
    variant: str
    dataset_name: str
    source: Literal["eval"] = "eval"
    passed: bool | None = Field(default=None, alias="pass")
    """None when no trial has a score."""
    request: CaseRequest
    response: str | None = None
    error: str | None = None
    grading_error: str | None = None
    scores: dict[str, GraderScore]
    duration_ms: float
    tags: list[str] | None = None
    tool_precision: float | None = None
    tool_recall: float | None = None
    tool_call_trace: CallTrace | None = None
    client_usage: Usage | None = None
    judge_usage: Usage | None = None
    client_diagnostics: dict[str, Any] | None = None
    client_telemetry: dict[str, Any] | None = None
    client_metadata: dict[str, Any] | None = None
    transcript_evidence: Evidence | None = None
    transcript: Transcript | None = None
    baseline_pass: bool | None = None
    pass_rate: float | None = None
    pass_rate_ci: Rate | None = Field(default=None, alias="passRateCI")
    infrastructure_error_rate: float | None = None
    infrastructure_error_count: int | None = None
    trial_results: list[TrialResult] | None = None
    checks: list[CheckResult] | None = None


class ResultsRecord(Document):
    """`results.json`: one entry per case and variant. Written and read as a stream; this is its shape."""

    FORMAT: ClassVar[str] = RUN_FORMAT
    KIND: ClassVar[str] = "results"
    format: Literal["mst.run/v1"] = "mst.run/v1"
    kind: Literal["results"] = "results"

    run_id: RunId
    cases: list[CaseResult]


class LatestRecord(Document):
    """`latest.json`: written last, only by a complete run that nobody narrowed."""

    FORMAT: ClassVar[str] = RUN_FORMAT
    KIND: ClassVar[str] = "latest"
    format: Literal["mst.run/v1"] = "mst.run/v1"
    kind: Literal["latest"] = "latest"

    run_id: RunId
    created_at: str
    path: str
    collected_at: str | None = None


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
    missing: int
    ungraded: int
    grading_errors: int


class VerdictRecord(Model):
    """The decision on one candidate, in a word and in numbers."""

    model_config = ConfigDict(use_attribute_docstrings=True)

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

    model_config = ConfigDict(use_attribute_docstrings=True)

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
