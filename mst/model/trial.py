"""The record of one trial: what a client brought back, before anybody graded it."""

from __future__ import annotations

from typing import Any, ClassVar, Literal

from mst.errors import ErrorKind
from mst.model.base import Document, FileRef, canonical, digest_bytes
from mst.model.identity import AttemptIdentity
from mst.model.transcript import Evidence, Transcript, Usage

RUN_FORMAT = "mst.run/v1"
TrialStatus = Literal["completed", "incomplete", "error"]
LimitHit = Literal["timeout", "cost", "tokens", "turns", "output", "memory", "disk", "pids"]
"""The limit that ended a program; what it left is graded as it stands."""


class TrialRecord(Document):
    """`transcripts/<variant>/<case-id>/<trial>.json`."""

    FORMAT: ClassVar[str] = RUN_FORMAT
    KIND: ClassVar[str] = "trial"
    format: Literal["mst.run/v1"] = "mst.run/v1"
    kind: Literal["trial"] = "trial"

    run_id: str
    variant: str
    case_id: str
    dataset_name: str
    trial: int
    status: TrialStatus = "completed"
    """`completed`: can be scored; `incomplete`: nothing to score; `error`: a stage broke, see `error_kind`."""
    duration_ms: float
    agent_duration_ms: float | None = None
    """Of the program under test alone."""
    stages_ms: dict[str, float] | None = None
    infrastructure_error: bool = False
    error: str | None = None
    error_kind: ErrorKind | None = None
    failure_kind: Literal["missing"] | None = None
    limit_hit: LimitHit | None = None
    attempt_id: str | None = None
    """Of this execution of the trial; records of before attempts were numbered have none."""
    attempt: int | None = None
    """Its number among the trial's attempts; None: the first. The last one counts, the others lie in `attempts/`."""
    retry_of: str | None = None
    """`attempt_id` of the attempt that this one replaced: that broke down by no fault of the program."""
    grading_error: str | None = None
    transcript: Transcript | None = None
    transcript_evidence: Evidence | None = None
    diff: str | None = None
    """Unified diff of the workspace against what the program was given; None when there was no workspace."""
    artifacts: str | None = None
    """The trial's artifact folder, relative to the run folder."""
    artifact_files: list[FileRef] = []
    exit_code: int | None = None
    client_usage: Usage | None = None
    client_telemetry: dict[str, Any] | None = None
    client_metadata: dict[str, Any] | None = None
    client_diagnostics: dict[str, Any] | None = None
    skill_loads: list[str] | None = None
    started_at: str | None = None
    case_digest: str | None = None
    case_input_hash: str | None = None
    identity: AttemptIdentity | None = None
    """What must be equal for another trial to be comparable with this one."""

    @property
    def is_scorable(self) -> bool:
        """Whether graders may look at it: broken machines are never shown to a grader as answers."""
        return _is_scorable(self.status, infrastructure_error=self.infrastructure_error)

    @property
    def evidence(self) -> Evidence:
        """How far its transcript can be trusted; `none` when there is none."""
        return self.transcript_evidence or (self.transcript.evidence if self.transcript is not None else "none")

    @property
    def attempts_before(self) -> int:
        """How many attempts of the same trial it replaced."""
        return (self.attempt or 1) - 1


class TrialState(Document):
    """Of a trial's record what says whether there is still something to collect or to grade.

    All trials of a run are asked this more than once; the rest of the record is passed over while reading.
    """

    FORMAT: ClassVar[str] = TrialRecord.FORMAT
    KIND: ClassVar[str] = TrialRecord.KIND

    variant: str
    case_id: str
    trial: int
    status: TrialStatus = "completed"
    infrastructure_error: bool = False

    @property
    def is_scorable(self) -> bool:
        """See `TrialRecord.is_scorable`."""
        return _is_scorable(self.status, infrastructure_error=self.infrastructure_error)


def _is_scorable(status: TrialStatus, *, infrastructure_error: bool) -> bool:
    return status != "incomplete" and not infrastructure_error


def trial_digest(record_bytes: bytes, artifacts: list[FileRef]) -> str:
    """SHA-256 over a trial record's bytes and its list of artifacts: what a score was given for."""
    listed = [{"path": file.path, "size": file.size, "sha256": file.sha256} for file in artifacts]
    return digest_bytes(canonical({"record": digest_bytes(record_bytes), "artifacts": listed}))
