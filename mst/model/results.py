"""`results.json`: each case for each variant, with its trials and their scores."""

from __future__ import annotations

from typing import Any, ClassVar, Literal

from pydantic import ConfigDict, Field

from mst.model.base import Document, Model
from mst.model.keys import RunId
from mst.model.numbers import Rate
from mst.model.score import CheckResult, GraderScore
from mst.model.transcript import Evidence, Transcript, Usage
from mst.model.trial import RUN_FORMAT


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

    model_config = ConfigDict(use_attribute_docstrings=True)

    FORMAT: ClassVar[str] = RUN_FORMAT
    KIND: ClassVar[str] = "results"
    format: Literal["mst.run/v1"] = "mst.run/v1"
    kind: Literal["results"] = "results"

    run_id: RunId
    cases: list[CaseResult]
    case_count: int | None = None
    """Entries that were written, after the last: one that is lost is noticed. Left out by earlier versions of mst."""
