"""One trial from its fixture to its record. Whatever happens, a record comes back that says what it was."""

from __future__ import annotations

import asyncio
import secrets as secrets_of_system
import time
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from mst.clients.contract import Client
from mst.collect.attempt import Attempt, artifact_folder
from mst.collect.context import RunContext
from mst.collect.identity import Setting, setting_of
from mst.collect.record import make_record
from mst.collect.workspace import Folders
from mst.model.case import Case, Variant
from mst.model.trial import TrialRecord
from mst.process.finishing import in_thread
from mst.process.removal import remove_tree


@dataclass(frozen=True, kw_only=True)
class Collected:
    """A finished trial.

    Attributes:
        record: everything but `artifacts`, which whoever stores the files fills in.
        artifacts: a folder with the exported files under their relative paths, for the caller to move or delete; None
            when there was no workspace, or nothing could be exported.
        superseded: earlier attempts of the same trial, each of which a fault of the machine or of ours ended.
    """

    record: TrialRecord
    artifacts: Path | None
    superseded: tuple[Collected, ...] = ()

    @property
    def attempts(self) -> tuple[Collected, ...]:
        """The superseded attempts, first to last, and this one."""
        return (*self.superseded, self)

    def discard(self) -> None:
        """Delete what is still there of the artifacts. Safe to call after they were moved."""
        for attempt in self.attempts:
            if attempt.artifacts is not None:
                remove_tree(attempt.artifacts)


def new_attempt_id() -> str:
    """16 hex digits; no two attempts share them."""
    return secrets_of_system.token_hex(8)


async def collect_trial(
    case: Case,
    variant: Variant,
    trial: int,
    *,
    client: Client,
    context: RunContext,
    setting: Setting | None = None,
    case_digest: str | None = None,
) -> Collected:
    """Run one trial: set up, client, diff, export, clean up.

    Never raises for anything that goes wrong in the trial: the record tells, with the kind of the innermost stage that
    failed. A fault while cleaning up is noted in `client_diagnostics` and hides nothing.

    Args:
        variant: as this case sees it (`effective_variant`).
        trial: its number, from 0.
        client: made for this variant.
        setting: of this client, from `setting_of`, unless it is to be found out here.
        case_digest: of the case, where it is known already.

    Raises:
        asyncio.CancelledError: after everything that was started is killed and deleted.
    """
    started_at = datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
    started = time.perf_counter()
    if setting is None:
        setting = await in_thread(setting_of, variant, client, context.files)
    attempt = Attempt(case=case, variant=variant, trial=trial, client=client, setting=setting, context=context)
    try:
        await attempt.run()
        await attempt.clean_up()
    except asyncio.CancelledError:
        await attempt.leave()
        _remove_now(attempt.folders)
        raise
    if attempt.left is None and attempt.folders is not None:
        # A failed export leaves a part of the files: nobody may take it for the whole.
        await in_thread(remove_tree, artifact_folder(attempt.folders))
    record = make_record(
        attempt,
        attempt_id=new_attempt_id(),
        started_at=started_at,
        duration_ms=(time.perf_counter() - started) * 1000,
        case_digest=case_digest or case.digest,
    )
    return Collected(record=record, artifacts=attempt.left.folder if attempt.left is not None else None)


def _remove_now(folders: Folders | None) -> None:
    if folders is None:
        return
    for folder in (folders.root, artifact_folder(folders)):
        try:
            remove_tree(folder)
        except OSError:
            # Cancellation goes first; the scratch root as a whole is deleted by its owner.
            continue
