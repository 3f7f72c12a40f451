"""Attempts of a trial in a run folder: the last one is the trial's record, those before it are kept beside.

    attempts/<variant>/<case-id>/<trial>/<attempt id>/trial.json
    attempts/<variant>/<case-id>/<trial>/<attempt id>/artifacts/...

Everything that counts or grades reads the trial's own record and nothing else, so no two attempts of a trial ever
count. A process that dies in the middle leaves the earlier record where it was: `--resume` finds a trial that broke
down.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from mst.collect.retrying import link
from mst.config.files import read_stored, write_atomic
from mst.config.moving import move_folder
from mst.model.base import digest_bytes
from mst.model.keys import TrialKey, segment
from mst.model.trial import TrialRecord
from mst.runs.folder import RunFolder


def write_trial(folder: RunFolder, attempts: Sequence[tuple[TrialRecord, Path | None]]) -> TrialRecord:
    """Make a trial durable with all of its attempts, first to last, and return its record.

    An attempt that broke down before, in another session, is kept and linked as well. Artifact folders are moved.
    Calling it again with the same attempts changes nothing.
    """
    last = attempts[-1][0]
    key = TrialKey(variant=last.variant, case_id=last.case_id, trial=last.trial)
    new = {record.attempt_id for record, _artifacts in attempts}
    _set_aside(folder, key, new)
    before = [record for record in kept_attempts(folder, key) if record.attempt_id not in new]
    linked = link([record for record, _artifacts in attempts], after=before)
    for record, (_record, artifacts) in zip(linked[:-1], attempts, strict=False):
        _keep(folder, record, artifacts)
    folder.write_trial(linked[-1], attempts[-1][1])
    return linked[-1]


def kept_attempts(folder: RunFolder, key: TrialKey) -> list[TrialRecord]:
    """The attempts of a trial that others replaced, first to last."""
    home = attempts_folder(folder, key)
    if not home.is_dir():
        return []
    found = [TrialRecord.from_json(read_stored(path), str(path)) for path in home.glob("*/trial.json")]
    return sorted(found, key=lambda record: (record.attempt or 1, record.started_at or "", record.attempt_id or ""))


def attempts_folder(folder: RunFolder, key: TrialKey) -> Path:
    """Where a trial's replaced attempts are."""
    return Path(f"{folder.path}/attempts/{segment(key.variant)}/{segment(key.case_id)}/{key.trial}")


def _set_aside(folder: RunFolder, key: TrialKey, new: set[str | None]) -> None:
    """Keep a copy of the record that will be replaced, if it broke down; its artifacts are moved."""
    data = folder.trial_bytes(key)
    present = None if data is None else folder.trial(key)
    if data is None or present is None or not present.infrastructure_error or present.attempt_id in new:
        return
    if present.attempt_id is None:
        present = present.model_copy(update={"attempt_id": digest_bytes(data)[:16]})
    artifacts = folder.artifact_folder(key)
    _keep(folder, present, artifacts if artifacts.is_dir() else None)


def _keep(folder: RunFolder, record: TrialRecord, artifacts: Path | None) -> None:
    key = TrialKey(variant=record.variant, case_id=record.case_id, trial=record.trial)
    home = attempts_folder(folder, key) / (record.attempt_id or "unknown")
    update: dict[str, object] = {"run_id": folder.run_id}
    target = home / "artifacts"
    if artifacts is not None and not target.exists():
        move_folder(artifacts, target)
    if target.exists():
        update["artifacts"] = target.relative_to(folder.path).as_posix()
    write_atomic(home / "trial.json", record.model_copy(update=update).to_json())
