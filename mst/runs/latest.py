"""Which run an eval's `latest.json` points to, and the run that a new one is compared with."""

from __future__ import annotations

import fcntl
import os
from pathlib import Path

from mst.config.files import write_atomic
from mst.errors import CorruptFile, FormatError
from mst.model.keys import source_stem
from mst.model.run import LatestRecord, RunRecord
from mst.model.summary import PreviousRun, SummaryRecord
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
        return LatestRecord.from_json(path.read_bytes(), str(path))
    except FileNotFoundError:
        return None


def _present(path: Path) -> LatestRecord | None:
    """The present latest; one that cannot be read is as good as none, since it only points to a run."""
    try:
        return read_latest(path)
    except CorruptFile:
        return None


def previous_run(folder: RunFolder, run: RunRecord) -> tuple[RunFolder, SummaryRecord] | None:
    """The eval's latest run that is not another grading of the same trials, if it can be read."""
    try:
        latest = read_latest(folder.path.parent.parent / "latest.json")
        if latest is None or source_stem(latest.run_id) == source_stem(run.run_id):
            return None
        found = RunFolder(folder.path.parent.parent / latest.path)
        return (found, found.summary()) if (found.path / "summary.json").is_file() else None
    except (CorruptFile, FormatError):
        return None


def change_since(summary_now: SummaryRecord, before: SummaryRecord) -> PreviousRun:
    """How the variants' pass rates moved since an earlier run. Runs narrowed differently share no numbers."""
    same = summary_now.content_hash == before.content_hash
    earlier = {variant.name: variant for variant in before.variants}
    variants = {}
    for variant in summary_now.variants:
        if variant.name in earlier:
            then = earlier[variant.name]
            variants[variant.name] = {
                "passRateDelta": _minus(variant.case_pass_rate, then.case_pass_rate),
                "trialPassRateDelta": _minus(variant.pass_rate, then.pass_rate),
            }
    now, then_rate = summary_now.metrics.pass_rate, before.metrics.pass_rate
    return PreviousRun(
        run_id=before.run_id,
        timestamp=before.timestamp,
        same_config=same,
        pass_rate=then_rate,
        pass_rate_delta=_minus(now, then_rate),
        variants=variants,
    )


def _minus(value: float | None, other: float | None) -> float | None:
    return None if value is None or other is None else value - other
