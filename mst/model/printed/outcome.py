"""How a run came out, as `mst run`, `grade`, `attach`, `show` and `compare` print it."""

from __future__ import annotations

from typing import ClassVar, Literal

from mst.model.base import Document
from mst.model.comparison import RunComparison
from mst.model.keys import RunId
from mst.model.printed.base import Printed
from mst.model.run import Phases
from mst.model.summary import ErrorPolicy, HealthFinding, VariantSummary, VerdictRecord
from mst.model.trial import RUN_FORMAT


class GateRecord(Printed):
    """What `--fail-on` made of the numbers."""

    conditions: list[str]
    failed: bool
    reasons: list[str]


class OutcomeDocument(Printed, Document):
    """`mst run`, `grade`, `attach` and `show`."""

    FORMAT: ClassVar[str] = RUN_FORMAT
    KIND: ClassVar[str] = "outcome"
    format: Literal["mst.run/v1"] = "mst.run/v1"
    kind: Literal["outcome"] = "outcome"

    run_id: RunId
    eval_name: str
    graded_from: RunId | None
    path: str
    report: str | None
    phases: Phases
    partial: bool
    graded: bool
    baseline: str | None
    variants: list[VariantSummary]
    verdicts: list[VerdictRecord]
    grader_errors: dict[str, int]
    error_policy: dict[str, ErrorPolicy]
    health: list[HealthFinding]
    looks: int | None
    warnings: list[str]
    gate: GateRecord
    exit_code: int


class ComparisonDocument(Printed, RunComparison, Document):
    """`mst compare`."""

    FORMAT: ClassVar[str] = RUN_FORMAT
    KIND: ClassVar[str] = "comparison"
    format: Literal["mst.run/v1"] = "mst.run/v1"
    kind: Literal["comparison"] = "comparison"

    gate: GateRecord
