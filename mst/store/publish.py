"""A run folder into a store: files by content first, the manifest last, then `latest.json`."""

from __future__ import annotations

import logging
import sqlite3
import tempfile
from contextlib import closing
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any

from mst.errors import CorruptFile, ObjectMissing, PreconditionFailed, StoreDenied, StoreError, StoreUnavailable
from mst.model.base import digest_bytes
from mst.model.manifest import RunManifest, SourceRun
from mst.model.run import LatestRecord
from mst.store.commit import publish_latest
from mst.store.contract import Store
from mst.store.find import FoundManifest, generations, read_generation, read_run
from mst.store.layout import RunKeys
from mst.store.listing import Listing
from mst.store.reuse import Present, Reuse
from mst.store.sending import SENDERS, Sender, Sent

_LOG = logging.getLogger(__name__)
PUSH_TRIES = 3
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
    workers: int = SENDERS,
    repair: bool = False,
) -> RunManifest:
    """Upload a run folder. Idempotent: what is there is not sent again, and the same files make no new generation.

    Interrupted at any moment, it leaves the run as it was before, or as it is now. Two that push the same run at once
    make two generations, of which the second lists what the second pushed. Memory does not grow with the run.

    Args:
        store: where to.
        run_dir: the run's folder. Names at its top that begin with a dot (lock files) are left out.
        eval_name: of the run.
        run_id: of the run.
        facts: what else the manifest says.
        source: the manifest of the run that this one is a regrade of. Its objects are referred to, not sent again.
        latest: makes the run the eval's latest if no later one is; None leaves `latest.json` alone.
        workers: packs and large files in transfer at once.
        repair: sends everything again but the source's objects, over objects whose bytes went wrong; so too the
            highest manifest when it can't be read, or the next one after it where nobody may overwrite it.

    Returns:
        The manifest that is now the run.

    Raises:
        DigestMismatch: a file changed while it was sent.
        UsageError: the folder holds something that is no plain file.
    """
    keys = RunKeys(eval_name, run_id)
    left = PUSH_TRIES
    while True:
        sent = _send(store, run_dir, keys, source, workers=workers, repair=repair)
        manifest = _create_generation(store, keys, facts, sent, _source_run(source), repair=repair)
        # Only a collection of garbage could have taken something; the next try sends it and lists it again.
        gone = Present(store, keys).missing(sent.reused)
        if not gone:
            break
        left -= 1
        if left == 0:
            raise StoreUnavailable(f"{store.uri}: objects of {keys.folder} go away while it is pushed: {gone[0]}")
        _LOG.warning("%s: %s went away while %s was pushed; pushing again", store.uri, gone[0], run_id)
    if latest is not None:
        publish_latest(store, eval_name, latest, repair=repair)
    return manifest


def _send(
    store: Store, run_dir: Path, keys: RunKeys, source: FoundManifest | None, *, workers: int, repair: bool
) -> Sent:
    present = Present(store, keys, trusting=not repair)
    try:
        with closing(Reuse()) as reuse:
            for found in (None if repair else read_run(store, keys), source):
                if found is not None:
                    reuse.learn(store, Listing.of(found.manifest), present)
            return Sender(store, run_dir, keys, reuse, present).send(workers=workers)
    except sqlite3.Error as error:
        raise StoreError(
            f"cannot keep the list of stored files in {tempfile.gettempdir()}: {error}; free some space, or set TMPDIR"
        ) from error


def _source_run(source: FoundManifest | None) -> SourceRun | None:
    if source is None:
        return None
    files, packs = Listing.of(source.manifest).for_another()
    return SourceRun(
        run_id=source.manifest.run_id,
        generation=source.manifest.generation,
        manifest_sha256=source.sha256,
        files=files,
        packs=packs,
    )


def _create_generation(
    store: Store, keys: RunKeys, facts: RunFacts, sent: Sent, source: SourceRun | None, *, repair: bool
) -> RunManifest:
    for _ in range(GENERATION_TRIES):
        # Before the manifest is read: one that comes in between takes this number, and we begin again after it.
        highest = max([0, *generations(store, keys)])
        broken = repair and _is_broken(store, keys, highest)
        present = _readable(store, keys) if broken else read_run(store, keys)
        if present is not None and not broken and _says_the_same(present.manifest, facts, sent, source):
            return present.manifest
        manifest = RunManifest(
            eval_name=keys.eval_name,
            run_id=keys.run_id,
            created_at=facts.created_at,
            complete=facts.complete,
            counts=facts.counts,
            machine=facts.machine,
            versions=facts.versions,
            files=sent.files,
            packs=sent.packs,
            source=source,
            generation=highest if broken else highest + 1,
            predecessor=present.sha256 if present else None,
        )
        if broken:
            try:
                store.put(keys.manifest(highest), manifest.to_json())
            except StoreDenied:
                # A bucket may let nobody overwrite a manifest: then the next one takes its place.
                manifest = manifest.model_copy(update={"generation": highest + 1})
            else:
                return manifest
        data, key = manifest.to_json(), keys.manifest(manifest.generation)
        try:
            store.put_if_absent(key, data)
        except PreconditionFailed:
            if digest_bytes(store.get(key)) == digest_bytes(data):
                return manifest
            continue
        return manifest
    raise StoreUnavailable(f"{store.uri}: {keys.folder} changed {GENERATION_TRIES} times while it was pushed")


def _is_broken(store: Store, keys: RunKeys, generation: int) -> bool:
    if generation == 0:
        return False
    try:
        read_generation(store, keys, generation)
    except CorruptFile:
        return True
    except ObjectMissing:
        pass
    return False


def _readable(store: Store, keys: RunKeys) -> FoundManifest | None:
    """The highest manifest that can be read, None when there is no such one."""
    try:
        return read_run(store, keys)
    except CorruptFile:
        return None


def _says_the_same(present: RunManifest, facts: RunFacts, sent: Sent, source: SourceRun | None) -> bool:
    says = (present.files, present.packs, present.complete, present.counts, present.source)
    return says == (sent.files, sent.packs, facts.complete, facts.counts, source)
