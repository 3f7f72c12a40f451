"""What is kept of a trial: its record, without secrets. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from mst.collect.attempt import Attempt
from mst.collect.identity import identity_of, image_of
from mst.errors import ErrorKind
from mst.model.base import digest
from mst.model.sound import sound_model
from mst.model.transcript import Transcript
from mst.model.trial import TrialRecord, TrialStatus
from mst.process.redact import Redactor

INFRASTRUCTURE = frozenset({"environment", "harness", "worker_lost", "broker"})
"""Kinds of error that are nobody's answer: never shown to graders, to be collected again."""
_FREE_FIELDS = ("name", "server", "arguments", "output", "raw_name", "id", "results")


def make_record(
    attempt: Attempt, *, attempt_id: str, started_at: str, duration_ms: float, case_digest: str
) -> TrialRecord:
    """The record of a finished attempt, without secrets; `artifacts` is left to whoever stores them."""
    result, redactor = attempt.result, attempt.context.redactor
    status, kind, error = _outcome(attempt)
    infrastructure = kind in INFRASTRUCTURE
    input_hash = digest(attempt.case.input)
    findings = attempt.enclosure.findings() if attempt.enclosure is not None else {}
    transcript = result.transcript if result is not None else None
    if transcript is not None and redactor:
        transcript = _clean(transcript, redactor)
    record = TrialRecord(
        run_id=attempt.context.run_id,
        variant=attempt.variant.name,
        case_id=attempt.case.id,
        dataset_name=attempt.case.dataset,
        trial=attempt.trial,
        attempt_id=attempt_id,
        status=status,
        duration_ms=round(duration_ms, 3),
        agent_duration_ms=None if result is None else result.agent_duration_ms,
        stages_ms=attempt.stages.times_ms,
        infrastructure_error=infrastructure,
        error=None if error is None else redactor.text(error),
        error_kind=kind,
        limit_hit=None if result is None or infrastructure else result.limit_hit,
        transcript=transcript,
        transcript_evidence=None if transcript is None else transcript.evidence,
        diff=None if attempt.patch is None else redactor.text(attempt.patch),
        artifact_files=[] if attempt.left is None else attempt.left.files,
        exit_code=None if result is None else result.exit_code,
        client_usage=None if transcript is None else transcript.usage,
        client_telemetry=None if result is None else redactor.data(result.telemetry),
        client_metadata=None if result is None else redactor.data(result.metadata),
        client_diagnostics=redactor.data(_diagnostics(attempt, findings)),
        skill_loads=None
        if transcript is None
        else [event.name for event in transcript.events if event.kind == "skill"] or None,
        started_at=started_at,
        case_digest=case_digest,
        case_input_hash=input_hash,
        identity=identity_of(
            attempt.setting,
            attempt.case,
            prompt=attempt.prompt,
            image=image_of(findings),
            solution=attempt.client.starts_from == "solution",
            input_hash=input_hash,
        ),
    )
    return sound_model(record)


def _clean(transcript: Transcript, redactor: Redactor) -> Transcript:
    """Free text and data without secrets; our own words (`kind`, `evidence`) stay, whatever a secret looks like."""
    events = [
        event.model_copy(update={name: redactor.data(getattr(event, name)) for name in _FREE_FIELDS})
        for event in transcript.events
    ]
    return transcript.model_copy(
        update={
            "events": events,
            "final_text": redactor.data(transcript.final_text),
            "error": redactor.data(transcript.error),
        }
    )


def _outcome(attempt: Attempt) -> tuple[TrialStatus, ErrorKind | None, str | None]:
    """Status, error kind and error."""
    failure, result = attempt.stages.failure, attempt.result
    if failure is not None and failure.stage != "cleanup":
        return "error", failure.kind, failure.message
    assert result is not None
    if result.error_kind is not None:
        return "error", result.error_kind, result.error or "the client gave no reason"
    if result.error is not None:
        return "incomplete", None, result.error
    return "completed", None, None


def _diagnostics(attempt: Attempt, findings: Mapping[str, Any]) -> dict[str, Any] | None:
    found: dict[str, Any] = {}
    if attempt.result is not None and attempt.result.diagnostics:
        found.update(attempt.result.diagnostics)
    if attempt.left is not None and (notes := attempt.left.notes()):
        found["export"] = notes
    if findings:
        found["sandbox"] = dict(findings)
    if attempt.cleanup_fault is not None:
        found["cleanup"] = attempt.cleanup_fault
    failure = attempt.stages.failure
    if failure is not None and failure.stage != "cleanup":
        found["failedStage"] = failure.stage
        if failure.trace is not None:
            found["traceback"] = failure.trace
    return found or None
