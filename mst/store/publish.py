"""A run folder into a store: files by content first, the manifest last, then `latest.json`."""

from __future__ import annotations

import stat
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from mst.errors import PreconditionFailed, StoreUnavailable, UsageError
from mst.model.base import digest_bytes
from mst.model.manifest import ManifestFile, RunManifest, SourceRun
from mst.model.run import LatestRecord
from mst.store.commit import publish_latest
from mst.store.contract import Store
from mst.store.find import FoundManifest, generations, read_run
from mst.store.layout import RunKeys
from mst.store.streams import digest_file
from mst.store.transfer import WORKERS, each

GENERATION_TRIES = 16


@dataclass(frozen=True)
class RunFacts:
    """What a run's manifest says besides its files.

    Attributes:
        created_at: the time of the push.
        complete: nothing that was planned is missing.
        counts: by name.
        machine: where it is pushed from.
        versions: `mst`, and plugins by package name.
    """

    created_at: datetime
    complete: bool
    counts: dict[str, int] = field(default_factory=dict)
    machine: dict[str, Any] | None = None
    versions: dict[str, str] = field(default_factory=dict)


def push_run(
    store: Store,
    run_dir: Path,
    *,
    eval_name: str,
    run_id: str,
    facts: RunFacts,
    source: FoundManifest | None = None,
    latest: LatestRecord | None = None,
    workers: int = WORKERS,
) -> RunManifest:
    """Upload a run folder. Idempotent: what is there is not sent again, and the same files make no new generation.

    Interrupted at any moment, it leaves the run as it was before, or as it is now. Two that push the same run at once
    make two generations, of which the second lists what the second pushed.

    Args:
        store: where to.
        run_dir: the run's folder. Names at its top that begin with a dot (lock files) are left out.
        eval_name: of the run.
        run_id: of the run.
        facts: what else the manifest says.
        source: the manifest of the run that this one is a regrade of. Its objects are referred to, not sent again.
        latest: makes the run the eval's latest if no later one is; None leaves `latest.json` alone.
        workers: files in transfer at once.

    Returns:
        The manifest that is now the run.

    Raises:
        DigestMismatch: a file changed while it was sent.
        UsageError: the folder holds something that is no plain file.
    """
    keys = RunKeys(eval_name, run_id)
    sender = _Sender(store, run_dir, keys, _elsewhere(source))
    files = list(each(sender.send, run_files(run_dir), workers=workers))
    manifest = _create_generation(store, keys, facts, files, _source_run(source))
    if latest is not None:
        publish_latest(store, eval_name, latest)
    return manifest


def run_files(run_dir: Path) -> Iterator[str]:
    """Paths of a run folder's files relative to it, POSIX, sorted within each folder, without dot names at the top.

    Raises:
        UsageError: there is no such folder, or something in it is no plain file.
    """
    if not run_dir.is_dir():
        raise UsageError(f"{run_dir} is not a run folder")
    for entry in sorted(run_dir.iterdir()):
        if not entry.name.startswith("."):
            yield from _walk(run_dir, entry)


def _walk(root: Path, path: Path) -> Iterator[str]:
    mode = path.lstat().st_mode
    if stat.S_ISDIR(mode):
        for entry in sorted(path.iterdir()):
            yield from _walk(root, entry)
    elif stat.S_ISREG(mode):
        yield path.relative_to(root).as_posix()
    else:
        raise UsageError(f"{path}: only plain files can be stored, this is a link or a device; remove or replace it")


class _Sender:
    """Sends files of one run, each content once."""

    def __init__(self, store: Store, run_dir: Path, keys: RunKeys, elsewhere: dict[str, str]) -> None:
        self._store = store
        self._run_dir = run_dir
        self._keys = keys
        self._elsewhere = elsewhere
        # One listing costs a request per thousand objects; asking for each would cost one per object.
        self._there = {info.key.rpartition("/")[2]: info.size for info in store.list(keys.blobs)}

    def send(self, name: str) -> ManifestFile:
        path = self._run_dir / name
        found = digest_file(path)
        there = self._elsewhere.get(found.sha256)
        if there is None and self._there.get(found.sha256) != found.size:
            self._store.put(self._keys.blob(found.sha256), path, sha256=found.sha256)
            self._there[found.sha256] = found.size
        try:
            name.encode()
            return ManifestFile(
                path=name,
                size=found.size,
                sha256=found.sha256,
                object=there,
                executable=bool(path.stat().st_mode & stat.S_IXUSR),
            )
        except (ValidationError, UnicodeEncodeError) as error:
            raise UsageError(f"{path!r}: a file with this name cannot be stored; rename it") from error


def _elsewhere(source: FoundManifest | None) -> dict[str, str]:
    """Objects of the source run by content."""
    return {} if source is None else {file.sha256: file.object or "" for file in _resolved(source.manifest)}


def _source_run(source: FoundManifest | None) -> SourceRun | None:
    if source is None:
        return None
    manifest = source.manifest
    return SourceRun(
        run_id=manifest.run_id,
        generation=manifest.generation,
        manifest_sha256=source.sha256,
        files=_resolved(manifest),
        packs=manifest.packs,
    )


def _resolved(manifest: RunManifest) -> list[ManifestFile]:
    keys = RunKeys(manifest.eval_name, manifest.run_id)
    return [file.model_copy(update={"object": file.object or keys.blob(file.sha256)}) for file in manifest.files]


def _create_generation(
    store: Store, keys: RunKeys, facts: RunFacts, files: list[ManifestFile], source: SourceRun | None
) -> RunManifest:
    for _ in range(GENERATION_TRIES):
        present = read_run(store, keys)
        if present is not None and _says_the_same(present.manifest, facts, files, source):
            return present.manifest
        manifest = RunManifest(
            eval_name=keys.eval_name,
            run_id=keys.run_id,
            created_at=facts.created_at,
            complete=facts.complete,
            counts=facts.counts,
            machine=facts.machine,
            versions=facts.versions,
            files=files,
            source=source,
            generation=max([0, *generations(store, keys)]) + 1,
            predecessor=present.sha256 if present else None,
        )
        data = manifest.to_json()
        key = keys.manifest(manifest.generation)
        try:
            store.put_if_absent(key, data)
        except PreconditionFailed:
            if digest_bytes(store.get(key)) == digest_bytes(data):
                return manifest
            continue
        return manifest
    raise StoreUnavailable(f"{store.uri}: {keys.folder} changed {GENERATION_TRIES} times while it was pushed")


def _says_the_same(present: RunManifest, facts: RunFacts, files: list[ManifestFile], source: SourceRun | None) -> bool:
    return (present.files, present.complete, present.counts, present.source) == (
        files,
        facts.complete,
        facts.counts,
        source,
    )
