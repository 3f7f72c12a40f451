"""Which run an eval's `latest.json` points to."""

from __future__ import annotations

import fcntl
import os
from pathlib import Path

from mst.config.files import read_stored, write_atomic
from mst.errors import CorruptFile
from mst.model.keys import source_stem
from mst.model.run import LatestRecord, RunRecord
from mst.runs.folder import RunFolder


def may_be_latest(run: RunRecord, collected_at: str, present: LatestRecord | None) -> bool:
    """Whether a run may become its eval's latest: complete, not narrowed, collected no earlier than the present one.

    A regrade has its source's collect phase, so a regrade of a partial run never does. Of two gradings of the same
    trials the later one counts.
    """
    if run.partial or run.phases.collect != "complete" or run.phases.grade != "complete":
        return False
    if present is None or source_stem(present.run_id) == source_stem(run.run_id):
        return True
    return collected_at >= (present.collected_at or present.created_at)


def publish_latest(folder: RunFolder) -> bool:
    """Point `latest.json` to a run if it may be there. Written last; atomic; safe beside other processes."""
    run = folder.run()
    path = folder.path.parent.parent / "latest.json"
    descriptor = os.open(path.with_name(".latest.lock"), os.O_RDWR | os.O_CREAT, 0o644)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        collected_at = folder.source.run().created_at
        if not may_be_latest(run, collected_at, _present(path)):
            return False
        record = LatestRecord(
            run_id=run.run_id, created_at=run.created_at, path=f"runs/{folder.path.name}", collected_at=collected_at
        )
        write_atomic(path, record.to_json())
        return True
    finally:
        os.close(descriptor)


def read_latest(path: Path) -> LatestRecord | None:
    """The present latest, or None.

    Raises:
        CorruptFile, FormatError: it cannot be read.
    """
    try:
        return LatestRecord.from_json(read_stored(path), str(path))
    except FileNotFoundError:
        return None


def _present(path: Path) -> LatestRecord | None:
    """The present latest; one that cannot be read is as good as none, since it only points to a run."""
    try:
        return read_latest(path)
    except CorruptFile:
        return None
