"""One trial from its fixture to its record. Whatever happens, a record comes back that says what it was."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from mst.clients.contract import Client, ClientResult, TrialContext
from mst.clients.placeholders import render_prompt
from mst.collect.baseline import Baseline
from mst.collect.export import Export
from mst.collect.stages import StageFailed, Stages
from mst.collect.workspace import (
    Folders,
    export_and_diff,
    in_thread,
    lay_solution,
    make_folders,
    prepare,
    remove,
    run_commands,
)
from mst.config.files import FileSource
from mst.errors import ClientError
from mst.model.base import digest
from mst.model.case import Case, StageTimeouts, Variant
from mst.model.trial import TrialRecord, TrialStatus
from mst.process.redact import Redactor

INFRASTRUCTURE = frozenset({"environment", "harness", "worker_lost", "broker"})
_OVERDUE_S = 60.0


@dataclass(frozen=True, kw_only=True)
class Collected:
    """A finished trial.

    Attributes:
        record: everything but `artifacts`, which whoever stores the files fills in.
        artifacts: a folder with the exported files under their relative paths, for the caller to move or delete; None
            when there was no workspace, or nothing could be exported.
    """

    record: TrialRecord
    artifacts: Path | None

    def discard(self) -> None:
        """Delete what is still there of the artifacts. Safe to call after they were moved."""
        if self.artifacts is not None:
            remove(self.artifacts)


@dataclass(kw_only=True)
class _Attempt:
    """What is known of a trial while it runs."""

    case: Case
    variant: Variant
    trial: int
    client: Client
    files: FileSource
    secrets: Mapping[str, str] = field(repr=False)
    timeouts: StageTimeouts
    scratch_root: Path
    redactor: Redactor
    stages: Stages = field(default_factory=Stages)
    prompt: str = ""
    folders: Folders | None = None
    baseline: Baseline | None = None
    result: ClientResult | None = None
    left: Export | None = None
    patch: str | None = None
    cleanup_fault: str | None = None

    async def run(self) -> None:
        """All stages up to the export, in order; the first that fails is the last."""
        try:
            with self.stages.stage("setup", "environment"):
                await self._set_up()
            with self.stages.stage("client", "harness"):
                self.result = await self._run_client()
            if self.baseline is not None:
                with self.stages.stage("export", "environment"):
                    await self._export(self.baseline)
        except StageFailed:
            return

    async def clean_up(self) -> None:
        """Teardown commands, then the folders. A fault is noted and changes nothing else."""
        if self.folders is None:
            return
        try:
            with self.stages.stage("cleanup", "environment"):
                fault = await self._tear_down()
                left = await self._remove_folders(self.folders)
                self.cleanup_fault = fault or left
        except StageFailed as failed:
            self.cleanup_fault = str(failed.__cause__)

    async def _set_up(self) -> None:
        self.prompt = render_prompt(self.variant.input_template, self.case.input)
        with_workspace = _needs_workspace(self.case, self.variant, self.client)
        if not with_workspace and self.client.needs == "nothing":
            return
        self.folders = make_folders(self.scratch_root, with_workspace=with_workspace)
        if self.folders.workspace is None:
            return
        self.baseline = await prepare(
            self.case, self.variant, self.folders, files=self.files, timeouts=self.timeouts, prompt=self.prompt
        )
        if self.client.starts_from == "solution":
            await lay_solution(self.case, self.folders.workspace, self.files)

    async def _run_client(self) -> ClientResult:
        folders = self.folders
        context = TrialContext(
            variant=self.variant,
            trial=self.trial,
            prompt=self.prompt,
            scratch=self.scratch_root if folders is None else folders.scratch,
            secrets=_secrets_for(self.client, self.secrets),
            files=self.files,
        )
        workspace = None if folders is None else folders.workspace
        limit = self.variant.trial_limits.time_s + _OVERDUE_S
        clock = asyncio.timeout(limit)
        try:
            async with clock:
                return await self.client.run(self.case, workspace, context)
        except TimeoutError as error:
            if not clock.expired():
                raise
            raise ClientError(
                f"the client did not keep its time limit and was ended after {limit:g} s", "harness"
            ) from error

    async def _export(self, baseline: Baseline) -> None:
        assert self.folders is not None
        assert self.folders.workspace is not None
        self.left, self.patch = await in_thread(
            export_and_diff,
            self.folders.workspace,
            _artifact_folder(self.folders),
            limits=self.variant.trial_limits,
            baseline=baseline,
            redactor=self.redactor,
            timeout_s=self.timeouts.export_s,
        )

    async def _tear_down(self) -> str | None:
        if not self.case.teardown or self.baseline is None or self.folders is None:
            return None
        try:
            await run_commands(
                self.case.teardown,
                self.case,
                self.folders,
                what="teardown",
                timeout_s=self.timeouts.cleanup_s,
                prompt=self.prompt,
            )
        except ClientError as error:
            return str(error)
        return None

    async def _remove_folders(self, folders: Folders) -> str | None:
        work = asyncio.ensure_future(asyncio.to_thread(remove, folders.root))
        await asyncio.wait({work}, timeout=self.timeouts.cleanup_s)
        if not work.done():
            work.add_done_callback(_ignore)
            return f"the trial's folders were not deleted within {self.timeouts.cleanup_s:g} s"
        error = work.exception()
        return None if error is None else f"the trial's folders could not be deleted: {error}"


async def collect_trial(
    case: Case,
    variant: Variant,
    trial: int,
    *,
    run_id: str,
    client: Client,
    files: FileSource,
    secrets: Mapping[str, str],
    stage_timeouts: StageTimeouts,
    scratch_root: Path,
    redactor: Redactor | None = None,
    case_digest: str | None = None,
) -> Collected:
    """Run one trial: set up, client, diff, export, clean up.

    Never raises for anything that goes wrong in the trial: the record tells, with the kind of the innermost stage that
    failed. A fault while cleaning up is noted in `client_diagnostics` and hides nothing.

    Args:
        case: what is to be answered.
        trial: its number, from 0.
        run_id: for the record.
        client: made for this variant.
        files: finds fixtures and what clients list.
        stage_timeouts: of the stages around the client.
        variant: as this case sees it (`effective_variant`).
        secrets: values by name; the client gets those that it needs, and all are removed from what is returned.
        scratch_root: an existing folder; the workspace and the artifacts are made in it. Best outside any repository.
        redactor: made from `secrets` unless given; making one costs more than a cheap trial.
        case_digest: of the whole case, where `case` has been stripped for collecting.

    Raises:
        asyncio.CancelledError: after everything that was started is killed and deleted.
    """
    started_at = datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
    started = time.perf_counter()
    attempt = _Attempt(
        case=case,
        variant=variant,
        trial=trial,
        client=client,
        files=files,
        secrets=secrets,
        timeouts=stage_timeouts,
        scratch_root=scratch_root,
        redactor=Redactor(secrets.values()) if redactor is None else redactor,
    )
    try:
        await attempt.run()
        await attempt.clean_up()
    except asyncio.CancelledError:
        _remove_now(attempt.folders)
        raise
    if attempt.left is None and attempt.folders is not None:
        # A failed export leaves a part of the files: nobody may take it for the whole.
        await in_thread(remove, _artifact_folder(attempt.folders))
    record = _record(
        attempt,
        run_id=run_id,
        started_at=started_at,
        duration_ms=(time.perf_counter() - started) * 1000,
        case_digest=case_digest or case.digest,
    )
    return Collected(record=record, artifacts=attempt.left.folder if attempt.left is not None else None)


def _record(attempt: _Attempt, *, run_id: str, started_at: str, duration_ms: float, case_digest: str) -> TrialRecord:
    result, redactor = attempt.result, attempt.redactor
    status, kind, error = _outcome(attempt)
    infrastructure = kind in INFRASTRUCTURE
    transcript = result.transcript if result is not None else None
    if transcript is not None and redactor:
        transcript = type(transcript).model_validate(redactor.data(transcript.to_dict()))
    return TrialRecord(
        run_id=run_id,
        variant=attempt.variant.name,
        case_id=attempt.case.id,
        dataset_name=attempt.case.dataset,
        trial=attempt.trial,
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
        client_diagnostics=redactor.data(_diagnostics(attempt)),
        skill_loads=None
        if transcript is None
        else [event.name for event in transcript.events if event.kind == "skill"] or None,
        started_at=started_at,
        case_digest=case_digest,
        case_input_hash=digest(attempt.case.input),
    )


def _outcome(attempt: _Attempt) -> tuple[TrialStatus, Any, str | None]:
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


def _diagnostics(attempt: _Attempt) -> dict[str, Any] | None:
    found: dict[str, Any] = {}
    if attempt.result is not None and attempt.result.diagnostics:
        found.update(attempt.result.diagnostics)
    if attempt.left is not None and (notes := attempt.left.notes()):
        found["export"] = notes
    if attempt.cleanup_fault is not None:
        found["cleanup"] = attempt.cleanup_fault
    failure = attempt.stages.failure
    if failure is not None and failure.stage != "cleanup":
        found["failedStage"] = failure.stage
        if failure.trace is not None:
            found["traceback"] = failure.trace
    return found or None


def _needs_workspace(case: Case, variant: Variant, client: Client) -> bool:
    if case.fixture is not None or case.setup or variant.files or client.needs == "workspace":
        return True
    return client.starts_from == "solution" and case.solution is not None


def _secrets_for(client: Client, secrets: Mapping[str, str]) -> dict[str, str]:
    needed = client.secrets_needed()
    absent = [name for name in needed if name not in secrets]
    if absent:
        raise ClientError(f"no value for the secret {', '.join(absent)}; declare it under `secrets` and pass it")
    return {name: secrets[name] for name in needed}


def _artifact_folder(folders: Folders) -> Path:
    """Beside the trial's folders, so that it outlives them; as unique as they are."""
    return folders.root.with_name(folders.root.name.replace("trial-", "artifacts-", 1))


def _remove_now(folders: Folders | None) -> None:
    if folders is None:
        return
    for folder in (folders.root, _artifact_folder(folders)):
        try:
            remove(folder)
        except OSError:
            # Cancellation goes first; the scratch root as a whole is deleted by its owner.
            continue


def _ignore(work: asyncio.Future[None]) -> None:
    if not work.cancelled():
        work.exception()
