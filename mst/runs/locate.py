"""From what people type to a run folder, and new numbers claimed so that two processes never share one."""

from __future__ import annotations

import re
import secrets
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path

from mst.config.files import read_stored
from mst.errors import InfrastructureError, UsageError
from mst.model.keys import RUN_ID, regrade_number, segment, short_id, source_stem
from mst.model.run import LatestRecord, RunRecord
from mst.runs.folder import RunFolder

SHORT = re.compile(r"[0-9a-f]{6}(\.g[1-9]\d*)?")


def eval_folder(root: Path, eval_name: str) -> Path:
    """Where an eval's runs are."""
    return root / segment(eval_name)


def new_run(root: Path, eval_name: str, now: datetime) -> RunFolder:
    """Claim a new run ID by creating its folder."""
    runs = eval_folder(root, eval_name) / "runs"
    try:
        runs.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise _not_writable(runs, error) from error
    while True:
        path = runs / f"{now:%Y%m%dT%H%M%SZ}-{secrets.token_hex(3)}"
        if _claim(path):
            return RunFolder(path)


def new_regrade(source: RunFolder) -> RunFolder:
    """Claim the first free `.g<n>` beside a run by creating its folder; n starts at 2."""
    stem = source_stem(source.run_id)
    number = 2
    while True:
        path = source.path.with_name(f"{stem}.g{number}")
        if _claim(path):
            return RunFolder(path)
        number += 1


def _claim(path: Path) -> bool:
    """Create a folder; whether it was this call that did."""
    try:
        path.mkdir()
    except FileExistsError:
        return False
    except OSError as error:
        raise _not_writable(path, error) from error
    return True


def _not_writable(path: Path, error: OSError) -> InfrastructureError:
    return InfrastructureError(f"{path}: cannot be created ({error.strerror}); give another --output-dir")


def find_run(ref: str, root: Path) -> RunFolder:
    """The run that a reference names: a run's folder, an eval's for its latest, a full ID, a short form, or `latest`.

    Raises:
        UsageError: none or several match; the message lists them.
    """
    path = Path(ref)
    if path.is_dir() and (path / "run.json").is_file():
        return RunFolder(path.resolve())
    if path.is_dir() and (path / "latest.json").is_file():
        return _pointed_to(path.resolve() / "latest.json")
    if ref == "latest":
        return latest_run(root)
    if not (RUN_ID.fullmatch(ref) or SHORT.fullmatch(ref)):
        raise UsageError(
            f"{ref!r} is no run folder, and no run ID, its 6-hex short form, or 'latest'; 'mst ls' lists your runs"
        )
    found = [folder for folder in all_runs(root) if ref in (folder.run_id, short_id(folder.run_id))]
    if len(found) == 1:
        return found[0]
    if not found:
        raise UsageError(f"no run {ref} under {root}; 'mst ls' lists your runs, --output-dir looks elsewhere")
    raise UsageError(f"{ref} names several runs: {', '.join(str(folder.path) for folder in found)}")


def latest_run(root: Path) -> RunFolder:
    """The newest run that some eval's `latest.json` points to.

    Raises:
        UsageError: there is none.
    """
    found = _latest(root)
    if found is None:
        collected = _collected_since("", root)
        newest = max((folder.run_id for folder in all_runs(root)), default=None)
        if collected is not None:
            fix = f"{collected.run_id} was collected and not graded: mst grade {short_id(collected.run_id)}"
        elif newest is not None:
            fix = f"name one that is not, such as {newest}"
        else:
            fix = "'mst run CONFIG' makes one, --output-dir looks elsewhere"
        raise UsageError(f"no complete run under {root} yet; {fix}")
    return found[0]


def latest_to_grade(root: Path) -> RunFolder:
    """What `latest` means to somebody who grades: the latest run, or one that was collected since and not graded.

    Raises:
        UsageError: there is neither.
    """
    found = _latest(root)
    collected = _collected_since(found[1] if found is not None else "", root)
    return collected or latest_run(root)


def _latest(root: Path) -> tuple[RunFolder, str] | None:
    """The latest run, and when it was made."""
    records = [
        (LatestRecord.from_json(read_stored(path), str(path)), path) for path in sorted(root.glob("*/latest.json"))
    ]
    if not records:
        return None
    record, path = max(records, key=lambda found: (found[0].created_at, found[0].run_id))
    return RunFolder(path.parent / record.path), record.created_at


def _collected_since(created_at: str, root: Path) -> RunFolder | None:
    """The newest run since then that was to be collected only, and was: whole, and not narrowed."""
    for folder in sorted(all_runs(root), key=lambda found: found.run_id, reverse=True):
        run = folder.run()
        if run.created_at <= created_at:
            return None
        if awaits_grading(run):
            return folder
    return None


def awaits_grading(run: RunRecord) -> bool:
    """Whether a run was to be collected only, and was: whole, and not narrowed."""
    is_ungraded = run.phases.collect == "complete" and run.phases.grade == "skipped" and run.grading is None
    return is_ungraded and not run.partial


def newest_run(root: Path) -> RunFolder:
    """The run that was begun last, however far it came.

    Raises:
        UsageError: there is none.
    """
    found = max(all_runs(root), key=lambda folder: folder.run().created_at, default=None)
    return found if found is not None else latest_run(root)


def _pointed_to(latest: Path) -> RunFolder:
    return RunFolder(latest.parent / LatestRecord.from_json(latest.read_bytes(), str(latest)).path)


def all_runs(root: Path) -> Iterator[RunFolder]:
    """Every run folder under a results root, by eval and run ID."""
    for path in sorted(root.glob("*/runs/*/run.json")):
        yield RunFolder(path.parent)


def regrades_of(source: RunFolder) -> list[RunFolder]:
    """A run's regrades, by number."""
    return [folder for folder in gradings_in(source.path.parent, source.run_id) if folder.run_id != source.run_id]


def gradings_in(runs: Path, run_id: str) -> list[RunFolder]:
    """A run and its regrades, as far as a folder has them, by number. `run_id` is of any of them."""
    stem = source_stem(run_id)
    found = [RunFolder(path.parent) for pattern in (stem, f"{stem}.g*") for path in runs.glob(f"{pattern}/run.json")]
    return sorted(
        (folder for folder in found if RUN_ID.fullmatch(folder.run_id)),
        key=lambda folder: regrade_number(folder.run_id),
    )


def lacks_end(folder: RunFolder) -> bool:
    """Whether everything is graded, but who did that was killed before the report was there."""
    run = folder.run()
    is_graded = run.phases.grade == "complete" and run.finished_at is not None
    return is_graded and not (folder.path / "report" / "index.html").is_file()


def is_under_way(run: RunRecord) -> bool:
    """Whether a run that collects has not come to its end: it owes trials, or the grading that it was begun with."""
    ended = run.finished_at is not None or (run.phases.collect == "complete" and run.grading is None)
    return run.graded_from is None and not ended
