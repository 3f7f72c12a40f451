"""Runs of a results root or of a store, newest first, each with how far it came and what its variants passed."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from mst.errors import CorruptFile, FormatError, MstError, UsageError
from mst.model.keys import run_order, segment, short_id
from mst.model.run import RunRecord
from mst.model.summary import SummaryRecord, VariantSummary
from mst.runs.folder import RunFolder
from mst.runs.latest import read_latest
from mst.runs.stored import latest_runs
from mst.store.contract import Store
from mst.store.find import StoredRun, list_runs, read_run
from mst.store.layout import RunKeys
from mst.store.listing import Listing
from mst.store.unpack import read_file

T = TypeVar("T")
READERS = 8
"""Stored runs that are read at once: each takes a few small requests."""


@dataclass(frozen=True, slots=True)
class ListedRun:
    """One run of a list.

    Attributes:
        state: how far it came, in a word or two.
        latest: its eval's `latest.json` names it.
        variants: empty until something is graded.
        place: its folder, or its address in the store.
    """

    run: RunRecord
    state: str
    latest: bool
    variants: Sequence[VariantSummary]
    place: str

    @property
    def short_id(self) -> str:
        """What people type."""
        return short_id(self.run.run_id)


@dataclass(frozen=True, slots=True)
class Listed:
    """Some runs, how many more there are, and what is wrong with those that could not be read."""

    runs: list[ListedRun]
    more: int
    wrong: list[MstError]


def local_runs(root: Path, *, eval_name: str | None = None, limit: int | None = None) -> Listed:
    """Runs under a results root.

    Args:
        root: need not exist.
        eval_name: only of this eval.
        limit: at most so many, the newest.
    """
    pattern = "*" if eval_name is None else segment(eval_name)
    paths = [path.parent for path in root.glob(f"{pattern}/runs/*/run.json")]
    latest: dict[Path, str | None] = {}

    def read(path: Path) -> ListedRun:
        folder = RunFolder(path)
        home = path.parent.parent
        if home not in latest:
            latest[home] = _latest_id(home)
        run = folder.run()
        summary = folder.summary() if (path / "summary.json").is_file() else None
        return ListedRun(
            run=run,
            state="running" if folder.is_locked() else state_of(run),
            latest=latest[home] == run.run_id,
            variants=summary.variants if summary is not None and summary.graded is not False else [],
            place=str(path),
        )

    chosen, more = _newest(paths, lambda path: path.name, limit)
    return _read_all(map(_safely(read), chosen), more)


def stored_runs(store: Store, *, eval_name: str | None = None, limit: int | None = None) -> Listed:
    """Runs of a store: of each that is shown its manifest, record and summary are read, and nothing else.

    Raises:
        StoreError: it cannot be listed.
    """
    chosen, more = _newest(list(list_runs(store, eval_name)), lambda run: run.run_id, limit)
    latest, wrong = latest_runs(store, sorted({run.eval_name for run in chosen}))

    def read(found: StoredRun) -> ListedRun:
        keys = RunKeys(found.eval_name, found.run_id)
        manifest = read_run(store, keys)
        if manifest is None:
            raise UsageError(f"{store.uri}: {found.run_id} was removed meanwhile")
        listing, place = Listing.of(manifest.manifest), f"{store.uri}: {found.run_id}"
        record, numbers = read_file(store, listing, "run.json"), read_file(store, listing, "summary.json")
        if record is None:
            raise CorruptFile(f"{place}: the run has no run.json")
        run = RunRecord.from_json(record, place)
        summary = SummaryRecord.from_json(numbers, place) if numbers is not None else None
        return ListedRun(
            run=run,
            state=state_of(run),
            latest=latest.get(found.eval_name) == found.run_id,
            variants=summary.variants if summary is not None and summary.graded is not False else [],
            place=f"{store.uri.rstrip('/')}/{keys.folder}",
        )

    with ThreadPoolExecutor(READERS, thread_name_prefix="mst-ls") as readers:
        listed = _read_all(readers.map(_safely(read), chosen), more)
    return Listed(listed.runs, listed.more, [*listed.wrong, *wrong])


def state_of(run: RunRecord) -> str:
    """How far a run came, in a word or two."""
    collect, grade = run.phases.collect, run.phases.grade
    if "failed" in {collect, grade}:
        return "failed"
    if collect == "partial":
        return "collect partial"
    if grade == "skipped":
        return "collected"
    narrowed = ", narrowed" if run.partial else ""
    return ("grade partial" if grade == "partial" else "complete") + narrowed


def _latest_id(home: Path) -> str | None:
    """A pointer that cannot be read points nowhere: the runs are listed all the same."""
    try:
        found = read_latest(home / "latest.json")
    except (CorruptFile, FormatError):
        return None
    return None if found is None else found.run_id


def _newest(found: Iterable[T], run_id: Callable[[T], str], limit: int | None) -> tuple[list[T], int]:
    """The newest first: run IDs begin with their time, and a run's gradings stand together, the last one on top."""
    ordered = sorted(found, key=lambda one: run_order(run_id(one)), reverse=True)
    return ordered[:limit], max(0, len(ordered) - (len(ordered) if limit is None else limit))


def _safely(read: Callable[[T], ListedRun]) -> Callable[[T], ListedRun | MstError]:
    def safe(one: T) -> ListedRun | MstError:
        try:
            return read(one)
        except MstError as error:
            return error

    return safe


def _read_all(found: Iterable[ListedRun | MstError], more: int) -> Listed:
    listed = Listed([], more, [])
    for one in found:
        if isinstance(one, MstError):
            listed.wrong.append(one)
        else:
            listed.runs.append(one)
    return listed
