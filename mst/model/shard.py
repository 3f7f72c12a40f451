"""`mst.shard/v1`: bundles, the messages between a shard worker and its supervisor, and the unit files it makes."""

from __future__ import annotations

from functools import lru_cache
from typing import Annotated, Any, ClassVar, Literal

from pydantic import Field, TypeAdapter

from mst.errors import GradingFault
from mst.model.base import Document, Model, canonical, digest_bytes
from mst.model.case import DatasetRecord, EvalPlan
from mst.model.keys import ComparisonKey, RunId, TrialKey
from mst.model.score import ComparisonGrading, TrialGrading

SHARD_FORMAT = "mst.shard/v1"
Work = Literal["collect", "grade"]
UnitKey = TrialKey | ComparisonKey
HEARTBEAT_S = 15.0
SILENCE_S = 60.0
LINE_MAX_BYTES = 1024 * 1024


class BundleRecord(Document):
    """`bundle.json`: the self-contained input of one shard. Holds no secret.

    Beside it in the bundle: `cases.jsonl` (the shard's cases, one a line, in plan order), `files/<sha256>` (every
    file that cases, clients and graders name), and for a grade bundle `run/` (trial records one after the other in
    `transcripts`, listed in `transcripts.jsonl`; artifacts under `artifacts/<sha256>`) and `earlier.jsonl` (gradings
    that a resume keeps).
    """

    FORMAT: ClassVar[str] = SHARD_FORMAT
    KIND: ClassVar[str] = "bundle"
    format: Literal["mst.shard/v1"] = "mst.shard/v1"
    kind: Literal["bundle"] = "bundle"

    work: Work
    run_id: RunId
    eval_name: str
    shard: int
    count: int
    dispatch: str | None = None
    mst: str
    """Version of the coordinator; the worker's must be equal."""
    plugins: dict[str, str] = {}
    """Plugin packages with the versions that the coordinator has."""
    plan: EvalPlan
    datasets: list[DatasetRecord] = []
    case_count: int
    seed: int
    trials: list[TrialKey] | None = None
    """When collecting: the trials still to make, if not all of the cases' trials."""
    variants: list[str] | None = None
    """Narrowed to these variants."""
    secrets: list[str] = []
    """Names of the secrets that this work needs."""


class BundledTrial(Model):
    """A line of a grade bundle's `transcripts.jsonl`: where in `transcripts` a trial's record lies."""

    variant: str
    case_id: str
    trial: int
    offset: int = Field(ge=0)
    size: int = Field(ge=0)
    scorable: bool
    """Whether it is a unit to grade."""

    @property
    def key(self) -> TrialKey:
        """Which trial it is."""
        return TrialKey(variant=self.variant, case_id=self.case_id, trial=self.trial)


class Unit(Document):
    """One finished unit as a file: self-describing, so that another attempt or the coordinator can adopt it."""

    FORMAT: ClassVar[str] = SHARD_FORMAT
    KIND: ClassVar[str] = "unit"
    format: Literal["mst.shard/v1"] = "mst.shard/v1"
    kind: Literal["unit"] = "unit"

    work: Work
    run_id: RunId
    shard: int
    bundle_digest: str
    attempt: str | None = None
    machine: str | None = None
    trial_grading: TrialGrading | None = None
    comparison_grading: ComparisonGrading | None = None
    collected: dict[str, Any] | None = None
    """A trial record with its artifact list; the artifacts' bytes lie beside the unit as `<sha256>`."""
    superseded: list[dict[str, Any]] | None = None
    """Records of the trial's earlier attempts, first to last; their artifacts lie there too."""
    payload_digest: str
    """SHA-256 over the canonical JSON of whichever of the three is there, `superseded` within `collected`."""

    @property
    def key(self) -> UnitKey:
        """What was worked on."""
        if self.trial_grading is not None:
            return self.trial_grading.key
        if self.comparison_grading is not None:
            return self.comparison_grading.key
        assert self.collected is not None
        return TrialKey(
            variant=self.collected["variant"], case_id=self.collected["caseId"], trial=self.collected["trial"]
        )

    def payload(self) -> dict[str, Any]:
        """The content that `payload_digest` is made over."""
        found = self.trial_grading or self.comparison_grading
        return found.to_dict() if found is not None else collected_payload(self.collected or {}, self.superseded)

    def artifacts(self) -> dict[str, int]:
        """Sizes by digest of the files that belong to it, those of earlier attempts too."""
        records = [self.collected or {}, *(self.superseded or [])]
        return {file["sha256"]: file["size"] for record in records for file in record.get("artifactFiles", [])}

    def is_intact(self) -> bool:
        """Whether the payload is the one that was digested."""
        return digest_bytes(canonical(self.payload())) == self.payload_digest


def collected_payload(record: dict[str, Any], superseded: list[dict[str, Any]] | None) -> dict[str, Any]:
    """What a collected unit's digest is made over: the record, with the attempts that it replaced if there were any."""
    return {**record, "superseded": superseded} if superseded else dict(record)


class ShardPlan(Model):
    """One shard of a dispatch: the units that must come back."""

    index: int
    digest: str
    planned: list[UnitKey]
    secrets: list[str] = []


class DispatchPlan(Document):
    """What one dispatch sent out, kept beside the run so that another process can go on with it."""

    FORMAT: ClassVar[str] = SHARD_FORMAT
    KIND: ClassVar[str] = "plan"
    format: Literal["mst.shard/v1"] = "mst.shard/v1"
    kind: Literal["plan"] = "plan"

    work: Work
    run_id: RunId
    eval_name: str
    dispatch: str
    count: int
    shards: list[ShardPlan]


@lru_cache(maxsize=4096)
def key_digest(key: UnitKey) -> str:
    """SHA-256 of a unit's key. Whoever handles a unit asks for it several times."""
    return digest_bytes(canonical(key.to_dict()))


def unit_name(key: UnitKey) -> str:
    """File name of a unit: the hash of its key, so that any name of a case or variant makes a plain file name."""
    return f"{key_digest(key)[:32]}.json"


class Hello(Model):
    """First line of a worker."""

    type: Literal["hello"] = "hello"
    protocol: str = SHARD_FORMAT
    mst: str
    python: str
    image: str | None = None
    machine: str
    plugins: dict[str, str] = {}
    runtimes: dict[str, str] = {}


class NeedTokens(Model):
    """The worker asks for secrets."""

    type: Literal["need-tokens"] = "need-tokens"
    names: list[str]
    reason: Literal["start", "expiring"] = "start"


class NeedFile(Model):
    """The worker asks for a file that its bundle lists by digest only."""

    type: Literal["need-file"] = "need-file"
    sha256: str


class Acquire(Model):
    """The worker asks for a turn: for a call (`call` and `resources`), or for a unit to start within the budget."""

    type: Literal["acquire"] = "acquire"
    key: UnitKey | None = None
    call: int | None = None
    """The worker's own number of the call; `released` names it."""
    resources: list[str] = []
    """`provider:<name>`, `server:<label>`."""
    tokens: int = 0
    """Estimate of what the call will use."""


class Released(Model):
    """A call has ended, or waits no more."""

    type: Literal["released"] = "released"
    call: int
    tokens: int | None = None
    """What it really used, when that is known."""


class Paused(Model):
    """A provider said how long to wait (`Retry-After`): that holds for every worker."""

    type: Literal["paused"] = "paused"
    resource: str
    seconds: float = Field(ge=0, le=24 * 3600)


class Started(Model):
    """A unit has begun."""

    type: Literal["started"] = "started"
    key: UnitKey


class TrialDone(Model):
    """A trial was collected; its file is whole on the worker's disk."""

    type: Literal["trial"] = "trial"
    key: TrialKey
    status: Literal["collected", "infra"]
    path: str
    files: list[str] = []
    """Further files to bring back first: artifacts by digest, relative to the results folder."""


class Graded(Model):
    """A unit was graded; `failed` means that a grader gave no verdict."""

    type: Literal["graded"] = "graded"
    key: UnitKey
    status: Literal["graded", "failed"]
    path: str
    passed: bool | None = None


class JudgeFailed(Model):
    """A judge gave no verdict for a reason that says nothing about the case: every shard counts it.

    The unit ends once it is counted (`judge-counted`): nothing more is asked of a judge that others found to be gone.
    """

    type: Literal["judge-failed"] = "judge-failed"
    fault: int
    """The worker's own number of it; `judge-counted` names it."""
    judge: str
    kind: GradingFault
    message: str


class JudgeAnswered(Model):
    """A judge gave a verdict. Said now and then, not each time."""

    type: Literal["judge-answered"] = "judge-answered"
    judge: str


class Heartbeat(Model):
    """The worker lives."""

    type: Literal["heartbeat"] = "heartbeat"
    at: str


class UsageReport(Model):
    """What a unit used."""

    type: Literal["usage"] = "usage"
    key: UnitKey
    tokens: int | None = None
    cost_usd: float | None = None
    judge_calls: int | None = None


class Done(Model):
    """Last line of a worker."""

    type: Literal["done"] = "done"
    collected: int = 0
    infra: int = 0
    graded: int = 0
    failed: int = 0
    cancelled: int = 0
    cleanup: Literal["ok", "failed"] = "ok"


class Refused(Model):
    """The worker can't start: preflight, version or a bad bundle. Nobody else will fare better."""

    type: Literal["refused"] = "refused"
    reason: str
    code: str


class Tokens(Model):
    """Answer to need-tokens."""

    type: Literal["tokens"] = "tokens"
    values: dict[str, str] = Field(repr=False)
    expires_at: str | None = None


class FileReady(Model):
    """Answer to need-file: where the file now lies."""

    type: Literal["file"] = "file"
    sha256: str
    path: str | None = None
    error: str | None = None


class Granted(Model):
    """Answer to acquire."""

    type: Literal["granted"] = "granted"
    key: UnitKey | None = None
    call: int | None = None
    refused: str | None = None
    """Why a unit may not start: the budget is used up. No other unit may then."""


class JudgeStopped(Model):
    """Nobody asks this judge any more."""

    type: Literal["judge-stopped"] = "judge-stopped"
    judge: str
    reason: str


class JudgeCounted(Model):
    """Answer to judge-failed, after a `judge-stopped` if that came of it."""

    type: Literal["judge-counted"] = "judge-counted"
    fault: int


class Limits(Model):
    """New limits for the worker."""

    type: Literal["limits"] = "limits"
    hold: bool
    """Start no unit while it is true: too many finished ones wait to be stored. Those in flight go on."""


class Cancel(Model):
    """Start no more; the units in flight may take `grace_s` (None: their own time limit)."""

    type: Literal["cancel"] = "cancel"
    reason: str
    grace_s: float | None = None


WorkerMessage = Annotated[
    Hello
    | NeedTokens
    | NeedFile
    | Acquire
    | Released
    | Paused
    | Started
    | TrialDone
    | Graded
    | JudgeFailed
    | JudgeAnswered
    | Heartbeat
    | UsageReport
    | Done
    | Refused,
    Field(discriminator="type"),
]
SupervisorMessage = Annotated[
    Tokens | FileReady | Granted | Limits | JudgeStopped | JudgeCounted | Cancel,
    Field(discriminator="type"),
]
worker_message: TypeAdapter[WorkerMessage] = TypeAdapter(WorkerMessage)
supervisor_message: TypeAdapter[SupervisorMessage] = TypeAdapter(SupervisorMessage)
