"""Whether a stored run's trials are still what was collected."""

from __future__ import annotations

from collections.abc import Iterable

from mst.config.files import hash_file
from mst.errors import DigestMismatch, ObjectMissing
from mst.model.keys import TrialKey
from mst.runs.folder import RunFolder


def refuse_altered(source: RunFolder, keys: Iterable[TrialKey]) -> None:
    """Read every record and every artifact of these trials once. Trials that were not collected are passed over.

    Raises:
        CorruptFile: a record cannot be read, or is another trial's.
        ObjectMissing: an artifact is gone.
        DigestMismatch: an artifact has other bytes than when it was collected.
    """
    for key in keys:
        record = source.trial(key)
        # What broke down is graded by nobody, and a retry that was cut short may have moved its artifacts already.
        for file in record.artifact_files if record is not None and record.is_scorable else []:
            path = source.artifact_folder(key) / file.path
            if not path.is_file():
                raise ObjectMissing(f"{path}: this artifact of {key} is missing; collect the trial again")
            if hash_file(path) != file.sha256:
                raise DigestMismatch(f"{path}: changed since it was collected; collect the trial again")
