"""What commands print with `--json`. Unlike stored files it spells out nulls: unknown is visible."""

from __future__ import annotations

from typing import Any, ClassVar, Literal

from pydantic import ConfigDict, Field

from mst.model.base import Document, Model
from mst.model.case import DatasetRecord
from mst.model.comparison import RunComparison
from mst.model.keys import RunId
from mst.model.run import Phases
from mst.model.summary import ErrorPolicy, HealthFinding, VariantSummary, VerdictRecord
from mst.model.trial import RUN_FORMAT


class Printed(Model):
    """One document on standard output, or one line of several."""

    model_config = ConfigDict(use_attribute_docstrings=True)

    def to_print(self) -> dict[str, Any]:
        """As plain JSON types, nulls included."""
        return self.model_dump(mode="json", by_alias=True)


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


class ExampleRecord(Printed):
    """Where a cause was first seen, with what the grader or the error said."""

    variant: str
    case: str
    trial: int
    text: str


class NextStep(Printed):
    """What to do about a cause."""

    say: str
    command: str | None


class CauseRecord(Printed):
    """Trials, or comparisons, that failed or have no score for one reason."""

    what: str
    title: str
    grader: str | None
    kind: str | None
    stage: str | None
    count: int
    by_variant: dict[str, int]
    cases: list[str]
    example: ExampleRecord
    next: list[NextStep]


class DiagnosisDocument(Printed, Document):
    """`mst diagnose`."""

    FORMAT: ClassVar[str] = RUN_FORMAT
    KIND: ClassVar[str] = "diagnosis"
    format: Literal["mst.run/v1"] = "mst.run/v1"
    kind: Literal["diagnosis"] = "diagnosis"

    run_id: RunId
    eval_name: str
    trials: int
    outcomes: dict[str, int]
    causes: list[CauseRecord]


class ListedVariant(Printed):
    """A variant of a run in a list."""

    name: str
    pass_rate: float | None
    cases_passed: int
    cases: int
    scored: int
    planned: int


class ListedRunRecord(Printed):
    """A run in a list."""

    run_id: RunId
    short_id: str
    eval: str
    created_at: str
    graded_from: RunId | None
    state: str
    phases: Phases
    narrowed: bool
    latest: bool
    baseline: str | None
    variants: list[ListedVariant]
    place: str


class RunsDocument(Printed):
    """`mst ls`."""

    runs: list[ListedRunRecord]
    more: int
    """Older ones that are not shown."""
    wrong: list[str]
    """Why some cannot be read."""


class Judged(Printed):
    """Verdicts of one grader, counted."""

    passed: int
    failed: int
    none: int


class SetVariant(Printed):
    """Trials of a variant in a grade set."""

    trials: int
    scored: int
    passed: int


class SetGrader(Printed):
    """A grader of a grade set."""

    name: str
    level: str
    type: str
    identity: str
    model: str | None
    prompt_hash: str | None
    version: str | None


class GradeSet(Printed):
    """One grading of the trials."""

    run_id: RunId
    created_at: str
    phase: str
    partial: bool
    reused_from: str | None
    variants: dict[str, SetVariant]
    graders: list[SetGrader]
    verdicts: dict[str, Judged]


class Flip(Printed):
    """A trial that came out differently."""

    variant: str
    case: str
    trial: int
    before: bool | None
    after: bool | None


class GraderChange(Printed):
    """One grader in two grade sets; numbers where both have it."""

    state: Literal["gone", "new", "same", "changed"]
    both: int | None = None
    differ: int | None = None
    kappa: float | None = None


class GradeSetChange(Printed):
    """A grade set held against the first."""

    from_: RunId = Field(alias="from")
    to: RunId
    trials: int
    up: int
    down: int
    gained: int
    lost: int
    flip_count: int
    flips: list[Flip]
    """The first 20."""
    graders: dict[str, GraderChange]


class GradeSetsDocument(Printed):
    """`mst show --grade-sets`."""

    sets: list[GradeSet]
    changes: list[GradeSetChange]


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


class IdentityDifference(Printed):
    """A part in which two attempts differ; `a` and `b` when a value says more than the sentence."""

    part: str
    said: str
    variant: str | None = None
    cases: list[str] | None = None
    a: Any = None
    b: Any = None
    trials: int | None = None


class IdentitiesDocument(Printed):
    """`mst diff-identity`."""

    a: str
    b: str
    comparable: bool
    trials: int
    differences: list[IdentityDifference]


class JudgesDocument(Model):
    """`mst judges`."""

    model_config = ConfigDict(alias_generator=None)

    judges: list[str]
    pairwise_judges: list[str]


class StoredRunRow(Printed):
    """A run in a store, by its manifest."""

    eval: str
    run_id: RunId
    generation: int
    complete: bool
    latest: bool
    files: int
    bytes: int
    pushed_at: str


class StoredRunsDocument(Printed):
    """`mst store ls`."""

    store: str
    runs: list[StoredRunRow]
    wrong: list[str]
    """Why some cannot be read."""


class WrongObject(Printed):
    """An object that is not what a manifest says."""

    key: str
    what: str


class VerifiedDocument(Printed):
    """`mst store verify`."""

    store: str
    wrong: list[WrongObject]


class RemovedObject(Printed):
    """An object that no manifest lists."""

    key: str
    bytes: int
    why: str


class StoreClearedDocument(Printed):
    """`mst store gc`."""

    store: str
    dry_run: bool
    removed: list[RemovedObject]


class ShardInFlightRecord(Printed):
    """A shard that a worker has; `lease_left_s` is negative when its lease has run out."""

    shard: int
    state: str
    attempt: str
    worker: str
    done: int
    units: int
    lease_left_s: float


class FleetRunRecord(Printed):
    """A dispatch that is not closed."""

    run_id: RunId
    dispatch: str
    work: str
    eval: str
    queue: str
    deadline: str
    shards: dict[str, int]
    units: int
    done: int
    cancel: str | None
    in_flight: list[ShardInFlightRecord]
    coordinator_here: bool


class LocalRunRecord(Printed):
    """A run that a command on this machine works on."""

    run_id: RunId
    eval: str
    coordinator_here: bool
    path: str


class InFlightDocument(Printed):
    """`mst ps`."""

    runs: list[FleetRunRecord | LocalRunRecord]


class ResourceRecord(Printed):
    """Calls of one provider or server, and the fleet's own limits."""

    resource: str
    running: int
    waiting: int
    paused_s: float
    limits: dict[str, float]


class SpentRecord(Printed):
    """What a run has spent, units under way included."""

    tokens: float
    cost_usd: float


class FleetLimitsDocument(Printed):
    """`mst fleet limits`."""

    resources: list[ResourceRecord]
    spent: dict[str, SpentRecord]


class BrokerLeftover(Printed):
    """Something in the broker that nobody needs any more."""

    kind: str
    name: str
    why: str
    place: str


class BrokerClearedDocument(Printed):
    """`mst fleet gc`."""

    dry_run: bool
    removed: list[BrokerLeftover]


class ScaleLine(Model):
    """`mst fleet scale`, one line each time. Its keys are those of the metrics."""

    model_config = ConfigDict(alias_generator=None)

    pool: str
    queues: list[str]
    queued: int
    running: int
    expired: int
    oldest_wait_s: float
    workers: int
    slots: int
    backlog: int
    backlog_per_worker: float
    desired: int


class ProgressLine(Printed):
    """A line on standard error while a command works."""

    event: Literal["progress"]
    what: str
    done: int
    planned: int | None
    passed: int
    problems: int
    cost_usd: float
    shards: dict[str, int]
    elapsed_s: float
    per_second: float
    left_s: int | None
    last_error: str | None


class NoteLine(Printed):
    """A line on standard error: something to know."""

    event: Literal["note"]
    text: str
