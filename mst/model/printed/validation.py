"""An eval that was looked at and not run, as `mst validate`, `judges` and `run --dry-run` print it."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import ConfigDict

from mst.model.base import Model
from mst.model.case import DatasetRecord
from mst.model.keys import RunId
from mst.model.printed.base import Printed


class EstimateRecord(Printed):
    """What a run will take, going by the latest one; what is not known is null, and `unknown` says why."""

    run: RunId | None
    at_once: int
    collect_s: float | None
    program_s: float | None
    cost_usd: float | None
    judge_cost_usd: float | None
    unknown: list[str]


class PlanDocument(Printed):
    """`mst run --dry-run`."""

    name: str
    datasets: list[DatasetRecord]
    variants: list[str]
    baseline: str
    cases: int
    trials: int
    estimate: EstimateRecord


class DifferenceRecord(Printed):
    """A field in which variants differ, with each one's value."""

    field: str
    values: dict[str, Any]


class CheckedCase(Printed):
    """A case with a stand-in for the program."""

    case_id: str
    verdict: Literal["1.0", "deferred", "FAILED", "MISSING"]
    detail: str
    faulty: bool


class ValidationDocument(Printed):
    """`mst validate`."""

    name: str
    config_id: str
    content_hash: str
    plugins: dict[str, str]
    variants: list[str]
    baseline: str
    datasets: list[DatasetRecord]
    cases: int
    trials: int
    differences: list[DifferenceRecord]
    warnings: list[str]
    faults: list[str]
    checks: dict[str, list[CheckedCase]]


class JudgesDocument(Model):
    """`mst judges`."""

    model_config = ConfigDict(alias_generator=None)

    judges: list[str]
    pairwise_judges: list[str]
