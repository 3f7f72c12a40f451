"""`run.json` and `latest.json`: what was run, with what, where, how far it came, and which run is the latest."""

from __future__ import annotations

from typing import Any, ClassVar, Literal

from mst.model.base import Document, Model
from mst.model.case import DatasetRecord, EvalPlan
from mst.model.keys import RunId
from mst.model.sealed import Sealed
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
    wasted_tokens: int | None = None
    """What attempts used for units that do not count, since another attempt's took their place; None for nothing."""
    wasted_cost_usd: float | None = None


class Grading(Model):
    """How a run was graded."""

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
    stopped: str | None = None
    """Why collecting ended before its last trial was started, when nobody cancelled it."""
    looks: int | None = None
    """Times that this data was extended after a look at it."""


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


class StoredLatest(Sealed, LatestRecord):
    """`latest.json` of a result store."""

    format: Literal["mst.run/v1"] = "mst.run/v1"
    kind: Literal["latest"] = "latest"
