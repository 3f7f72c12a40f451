"""A run out of a store: every byte checked, in place only when all of it is."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import closing
from functools import partial
from pathlib import Path

from mst.errors import CorruptFile, DigestMismatch, ObjectMissing, UsageError
from mst.model.manifest import ManifestFile, RunManifest
from mst.store.contract import Store
from mst.store.find import read_run
from mst.store.layout import RunKeys
from mst.store.listing import Listing
from mst.store.place import hidden_beside, put_in_place
from mst.store.streams import local_error
from mst.store.transfer import each_as_it_ends
from mst.store.unpack import Range, Unpacker, Wanted

FETCHERS = 3
"""Ranges and large files in transfer at once. In memory: a range more, while its small files are written."""
_NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC


def fetch_run(
    store: Store,
    *,
    eval_name: str,
    run_id: str,
    into: Path,
    workers: int = FETCHERS,
    wanted: Wanted | None = None,
) -> RunManifest:
    """Download a run into a folder that does not exist yet.

    All files are downloaded and checked in a hidden folder beside it, flushed to disk, then it gets its name in one
    step. After an error or a kill there is no folder `into`; what a killed fetch left hidden goes with the next fetch
    into the same place. Memory does not grow with the run.

    Args:
        store: where from.
        eval_name: of the run.
        run_id: of the run.
        into: the run's folder to be.
        workers: ranges and large files in transfer at once.
        wanted: narrows the fetch to some paths; all files by default.

    Raises:
        UsageError: the store has no such run, or `into` is there already.
        DigestMismatch: an object's bytes are not those that were stored; names the object and the file.
        ObjectMissing: an object that the manifest lists is gone; names it and the file.
        StoreError: a file can't be written.
    """
    keys = RunKeys(eval_name, run_id)
    found = read_run(store, keys)
    if found is None:
        raise UsageError(f"{store.uri} has no run {run_id} of {eval_name}")
    fetch_listing(store, Listing.of(found.manifest), into=into, workers=workers, wanted=wanted)
    return found.manifest


def fetch_source(
    store: Store, manifest: RunManifest, *, into: Path, workers: int = FETCHERS, wanted: Wanted | None = None
) -> None:
    """Download the run that a regrade refers to, from what the regrade's manifest lists. See `fetch_run`.

    Raises:
        UsageError: the run is no regrade, or `into` is there already.
    """
    if manifest.source is None:
        raise UsageError(f"{manifest.run_id} refers to no other run")
    listing = Listing.of_source(manifest.eval_name, manifest.source)
    fetch_listing(store, listing, into=into, workers=workers, wanted=wanted)


def fetch_file(store: Store, key: str, path: Path, *, size: int, sha256: str) -> None:
    """Download one object whose content is known. No file is left after an error.

    Raises:
        DigestMismatch: other bytes came; names the object.
        ObjectMissing: it is not there.
    """
    got = store.get_to(key, path)
    if (got.size, got.sha256) == (size, sha256):
        return
    path.unlink(missing_ok=True)
    wrong = f"{got.size} bytes instead of {size}" if got.size != size else f"SHA-256 {got.sha256}"
    raise DigestMismatch(f"{store.uri}: the object {key} is corrupt: it has {wrong}, {sha256} was stored")


def fetch_listing(
    store: Store, listing: Listing, *, into: Path, workers: int = FETCHERS, wanted: Wanted | None = None
) -> None:
    """Download what a manifest lists, as `fetch_run` does.

    Raises:
        UsageError: `into` is there already.
        DigestMismatch, CorruptFile, ObjectMissing, StoreError: see `fetch_run`.
    """
    if os.path.lexists(into):
        raise UsageError(f"{into} is there already; move it away, or fetch to another place")

    def jobs(unpacker: Unpacker) -> Iterator[Callable[[], Range | None]]:
        for pack, window in unpacker.plan():
            yield partial(unpacker.read, pack, window)
        for file in listing.files:
            if wanted is None or wanted(file.path):
                yield partial(_download, store, file, listing.file_key(file), hidden / file.path)

    with hidden_beside(into) as hidden:
        try:
            with closing(Unpacker(store, listing, hidden, wanted)) as unpacker:
                for found in each_as_it_ends(lambda job: job(), jobs(unpacker), workers=workers):
                    if found is not None:
                        unpacker.write(found)
        except (DigestMismatch, CorruptFile, ObjectMissing) as error:
            mend = f"'mst store push {listing.keys.run_id} --repair', where a good copy is, mends it"
            raise type(error)(f"{error}; {mend}") from error
        put_in_place(hidden, into)


def _download(store: Store, file: ManifestFile, key: str, path: Path) -> None:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        # Taken before it is filled: whoever else writes this path then learns that it is listed twice.
        os.close(os.open(path, _NEW, 0o666))
    except (FileExistsError, NotADirectoryError) as error:
        raise CorruptFile(f"{store.uri}: {file.path} is listed twice, or is a file and a folder") from error
    except OSError as error:
        raise local_error("write", path, error) from error
    try:
        fetch_file(store, key, path, size=file.size, sha256=file.sha256)
    except ObjectMissing as error:
        raise ObjectMissing(f"{store.uri}: the object {key} ({file.path}) is listed but gone") from error
    except DigestMismatch as error:
        raise DigestMismatch(f"{error} ({file.path})") from error
    if file.executable:
        path.chmod(path.stat().st_mode | 0o111)
