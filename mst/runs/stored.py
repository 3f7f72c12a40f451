"""Runs between a results root and a result store: brought here when a command needs them, pushed when they are done."""

from __future__ import annotations

import re
import secrets
import socket
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from urllib.parse import unquote

from mst import __version__
from mst.errors import AmbiguousRun, CorruptFile, FormatError, InfrastructureError, UsageError
from mst.model.keys import RUN_ID, regrade_number, segment, source_stem
from mst.model.manifest import RunManifest
from mst.model.run import LatestRecord, RunRecord
from mst.runs.folder import RunFolder
from mst.runs.latest import may_be_latest
from mst.runs.locate import awaits_grading, find_run
from mst.store.commit import claim_regrade, read_latest
from mst.store.contract import Store
from mst.store.fetch import fetch_run, fetch_source
from mst.store.find import FoundManifest, StoredRun, list_runs, read_run
from mst.store.find import find_run as find_stored
from mst.store.layout import RunKeys
from mst.store.listing import Listing
from mst.store.publish import RunFacts, push_run
from mst.store.transfer import each
from mst.store.unpack import read_file

_URI = re.compile(r"[a-z][a-z0-9+.-]+:")
_RUN = re.compile(rf"/(?P<eval>[^/]+)/runs/(?P<run>{RUN_ID.pattern})/?$")


@dataclass(frozen=True)
class StoreRef:
    """A run that a store URI names.

    Attributes:
        store: the store's URI.
        run: a run ID, or `latest` when the URI is that of a store.
        eval_name: of the run, when the URI says it.
    """

    store: str
    run: str
    eval_name: str | None = None


def read_uri(ref: str) -> StoreRef | None:
    """What a store URI means - `<store>` its latest run, `<store>/<eval>/runs/<run-id>` that run; None when it is none.

    Settings behind a `?` belong to the store.
    """
    if not _URI.match(ref) or Path(ref).exists():
        return None
    path, mark, settings = ref.partition("?")
    found = _RUN.search(path)
    if found is None:
        return StoreRef(ref, "latest")
    return StoreRef(f"{path[: found.start()]}{mark}{settings}", found["run"], unquote(found["eval"]))


def bring(store: Store, ref: str, root: Path, *, eval_name: str | None = None) -> RunFolder:
    """The folder of a run that a store holds, fetched into the results root unless it is there; its source too.

    A path, and a run that only the results root has, is taken as it is.

    Raises:
        UsageError: nobody has such a run; or the copy here is not what the store holds.
        DigestMismatch, StoreError: see `fetch_run`. No folder is left then.
    """
    if (Path(ref) / "run.json").is_file():
        return find_run(ref, root)
    try:
        found = find_stored(store, ref, eval_name)
    except AmbiguousRun:
        raise
    except UsageError:
        try:
            return find_run(ref, root)
        except UsageError:
            pass
        raise
    return bring_run(store, found, root)


def bring_run(store: Store, run: StoredRun, root: Path) -> RunFolder:
    """The same for a run that was found.

    Raises:
        UsageError: the copy here is not what the store holds.
    """
    folder = root / segment(run.eval_name) / "runs" / run.run_id
    manifest = read_run(store, RunKeys(run.eval_name, run.run_id))
    if manifest is None:
        raise UsageError(f"{store.uri} has no run {run.run_id} of {run.eval_name}")
    source = manifest.manifest.source
    # The source first: a regrade that is there always finds what it reads.
    if source is not None and not (folder.with_name(source.run_id) / "run.json").is_file():
        fetch_source(store, manifest.manifest, into=_ready(folder.with_name(source.run_id)))
    if (folder / "run.json").is_file():
        _refuse_other(store, manifest, folder)
    else:
        fetch_run(store, eval_name=run.eval_name, run_id=run.run_id, into=_ready(folder))
    return RunFolder(folder)


def latest_to_grade(store: Store) -> StoredRun:
    """What `latest` means to somebody who grades: the store's latest run, or one collected since and not graded yet.

    Raises:
        UsageError: there is neither.
        AmbiguousRun: several evals have a latest run.
    """
    try:
        latest: StoredRun | None = find_stored(store, "latest")
    except AmbiguousRun:
        raise
    except UsageError:
        latest = None
    since = "" if latest is None else source_stem(latest.run_id)
    newer = list_runs(store, meant=lambda run_id: run_id > since and regrade_number(run_id) == 1)
    for run in sorted(newer, key=lambda run: run.run_id, reverse=True):
        found = read_run(store, RunKeys(run.eval_name, run.run_id))
        record = None if found is None else read_file(store, Listing.of(found.manifest), "run.json")
        if record is not None and awaits_grading(RunRecord.from_json(record, f"{store.uri}: {run.run_id}")):
            return run
    return latest if latest is not None else find_stored(store, "latest")


def push_folder(store: Store, folder: RunFolder, *, repair: bool = False) -> RunManifest:
    """Push a run with its manifest last; a regrade refers to its source's objects, and its source is pushed first.

    Becomes the store's latest run of its eval when it may be. Idempotent.

    Raises:
        UsageError: the folder holds something that cannot be stored.
        StoreError: the store does not take it; the folder is as before.
    """
    run = folder.run()
    source = folder.source
    found: FoundManifest | None = None
    if run.graded_from is not None and source.path != folder.path:
        keys = RunKeys(run.eval_name, run.graded_from)
        found = None if repair else read_run(store, keys)
        if found is None:
            push_folder(store, source, repair=repair)
            found = read_run(store, keys)
    return push_run(
        store,
        folder.path,
        eval_name=run.eval_name,
        run_id=run.run_id,
        facts=_facts(folder, run),
        source=found,
        latest=_latest(run, source.run().created_at),
        repair=repair,
    )


def claim_in(store: Store) -> Callable[[RunFolder], RunFolder]:
    """A way to claim a regrade's number both in a store and by creating its folder. Neither has it twice."""

    def claim(source: RunFolder) -> RunFolder:
        eval_name, number = source.run().eval_name, 2
        while True:
            run_id = claim_regrade(
                store,
                eval_name=eval_name,
                source=source.run_id,
                claimant=secrets.token_hex(16),
                now=datetime.now(UTC),
                at_least=number,
            )
            path = source.path.with_name(run_id)
            try:
                path.mkdir()
            except FileExistsError:
                number = regrade_number(run_id) + 1
                continue
            except OSError as error:
                raise InfrastructureError(
                    f"{path}: cannot be created ({error.strerror}); give another --output-dir"
                ) from error
            return RunFolder(path)

    return claim


def stored_runs(
    store: Store, eval_name: str | None = None
) -> tuple[list[RunManifest], list[CorruptFile | FormatError]]:
    """Manifests of every run of a store, or of one eval, by eval and run ID; and what is wrong with the others."""
    found: list[RunManifest] = []
    wrong: list[CorruptFile | FormatError] = []

    def read(run: StoredRun) -> FoundManifest | CorruptFile | FormatError | None:
        try:
            return read_run(store, RunKeys(run.eval_name, run.run_id))
        except (CorruptFile, FormatError) as error:
            return error

    for one in each(read, list_runs(store, eval_name, nameless=wrong.append)):
        if isinstance(one, FoundManifest):
            found.append(one.manifest)
        elif one is not None:
            wrong.append(one)
    return found, wrong


def latest_runs(store: Store, eval_names: list[str]) -> tuple[dict[str, str], list[CorruptFile | FormatError]]:
    """The run ID that each eval's `latest.json` names, by eval; and what is wrong with those that cannot be read."""
    found: dict[str, str] = {}
    wrong: list[CorruptFile | FormatError] = []
    for name in eval_names:
        try:
            record = read_latest(store, name)
        except (CorruptFile, FormatError) as error:
            wrong.append(error)
            continue
        if record is not None:
            found[name] = record.run_id
    return found, wrong


def _facts(folder: RunFolder, run: RunRecord) -> RunFacts:
    whole = run.phases.collect == "complete" and run.phases.grade == "complete"
    plugins = {one.plugin: one.plugin_version for one in run.graders if one.plugin and one.plugin_version}
    return RunFacts(
        created_at=datetime.now(UTC),
        complete=whole,
        counts=_counts(folder),
        machine={"id": socket.gethostname()},
        versions={"mst": __version__, **plugins},
    )


def _counts(folder: RunFolder) -> dict[str, int]:
    """What the summary counts, over all variants; nothing for a run that has none or one that cannot be read."""
    counts: Counter[str] = Counter()
    with suppress(UsageError, CorruptFile):
        for variant in folder.summary().variants:
            counts.update(variant.counts.model_dump(exclude_none=True))
    return dict(counts)


def _latest(run: RunRecord, collected_at: str) -> LatestRecord | None:
    if not may_be_latest(run, collected_at, None):
        return None
    return LatestRecord(
        run_id=run.run_id, created_at=run.created_at, path=f"runs/{run.run_id}", collected_at=collected_at
    )


def _refuse_other(store: Store, found: FoundManifest, folder: Path) -> None:
    """`run.json` is written again by whatever changes a run, so it tells two states of one apart."""
    there = read_file(store, Listing.of(found.manifest), "run.json")
    if there != (folder / "run.json").read_bytes():
        raise UsageError(
            f"{folder} is not the run that {store.uri} holds; push it with `mst store push`, or move it away"
        )


def _ready(folder: Path) -> Path:
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InfrastructureError(
            f"{folder.parent}: cannot be created ({error.strerror}); give another --output-dir"
        ) from error
    return folder
