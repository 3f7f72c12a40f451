"""Everything that a run's manifest lists, read and compared: any wrong byte is found and named."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

from mst.errors import CorruptFile, DigestMismatch, FormatError, ObjectMissing
from mst.model.manifest import ManifestFile, Pack, PackEntry
from mst.store.commit import read_latest, read_shard
from mst.store.contract import Store
from mst.store.find import generations, list_runs, read_generation, read_run
from mst.store.layout import RunKeys, latest_key, shard_number
from mst.store.listing import Listing, read_pack_index
from mst.store.transfer import each

VERIFIERS = 4


@dataclass(frozen=True)
class Wrong:
    """Something in a store that is not as it was written.

    Attributes:
        key: of the object.
        what: is wrong with it; names files of a pack.
    """

    key: str
    what: str


def verify_run(store: Store, keys: RunKeys, *, workers: int = VERIFIERS) -> Iterator[Wrong]:
    """Check every manifest of a run and of its dispatches' shards, and every byte that they list.

    Reads the run and what it refers to, each object once. Memory: one pack per worker, none of it kept.

    Raises:
        StoreUnavailable, StoreDenied: the store does not let itself be read.
    """
    yield from _manifests(store, keys)
    try:
        found = read_run(store, keys)
    except (CorruptFile, FormatError):
        return
    listings: list[Listing | Wrong] = [] if found is None else [Listing.of(found.manifest)]
    if found is not None and found.manifest.source is not None:
        listings.append(Listing.of_source(keys.eval_name, found.manifest.source))
    yield from _listed(store, [*listings, *_shards(store, keys)], workers)


def verify_latest(store: Store, eval_name: str) -> Iterator[Wrong]:
    """Check that an eval's `latest.json` can be read and names a run that is there."""
    try:
        record = read_latest(store, eval_name)
    except (CorruptFile, FormatError) as error:
        yield Wrong(latest_key(eval_name), str(error))
        return
    if record is not None and not generations(store, RunKeys(eval_name, record.run_id)):
        yield Wrong(RunKeys(eval_name, record.run_id).folder, "latest.json names this run, which has no manifest")


def verify_store(store: Store, eval_name: str | None = None) -> Iterator[Wrong]:
    """Check every run of a store, or of one eval of it; objects that several runs list are read for each."""
    names: dict[str, None] = {}
    nameless: list[CorruptFile] = []
    for run in list_runs(store, eval_name, nameless=nameless.append):
        names[run.eval_name] = None
        yield from verify_run(store, RunKeys(run.eval_name, run.run_id))
    for name in names:
        yield from verify_latest(store, name)
    for error in nameless:
        yield Wrong(str(error).removeprefix(f"{store.uri}: ").partition(": ")[0], str(error))


def _manifests(store: Store, keys: RunKeys) -> Iterator[Wrong]:
    after: str | None = None
    for generation in generations(store, keys):
        try:
            found = read_generation(store, keys, generation)
        except (CorruptFile, FormatError, ObjectMissing) as error:
            yield Wrong(keys.manifest(generation), str(error))
            after = None
            continue
        if after is not None and found.sha256 != after:
            yield Wrong(keys.manifest(generation), f"has SHA-256 {found.sha256}, its successor names {after}")
        after = found.manifest.predecessor


def _shards(store: Store, keys: RunKeys) -> Iterator[Listing | Wrong]:
    for dispatch in store.list_folder(keys.dispatches).folders:
        folder = keys.dispatch(dispatch)
        for name in store.list_folder(folder.shards).folders:
            number = shard_number(name)
            if number is None:
                continue
            shard = folder.shard(number)
            try:
                manifest = read_shard(store, shard)
            except (CorruptFile, FormatError) as error:
                yield Wrong(shard.manifest, str(error))
                continue
            if manifest is not None:
                yield Listing(keys, manifest.files, manifest.packs)


def _listed(store: Store, listings: Iterable[Listing | Wrong], workers: int) -> Iterator[Wrong]:
    seen: set[str] = set()

    def jobs() -> Iterator[Callable[[], list[Wrong]]]:
        for listing in listings:
            if isinstance(listing, Wrong):
                yield partial(list, [listing])
                continue
            for pack in listing.packs:
                # The same pack may be listed with another index.
                if (key := listing.index_key(pack)) not in seen:
                    seen.add(key)
                    yield partial(_pack, store, listing, pack)
            for file in listing.files:
                if (key := listing.file_key(file)) not in seen:
                    seen.add(key)
                    yield partial(_file, store, key, file)

    for wrong in each(lambda job: job(), jobs(), workers=workers):
        yield from wrong


def _file(store: Store, key: str, file: ManifestFile) -> list[Wrong]:
    with TemporaryDirectory(prefix="mst-verify-") as folder:
        try:
            got = store.get_to(key, Path(folder) / "object")
        except ObjectMissing:
            return [Wrong(key, f"is gone ({file.path})")]
    if (got.size, got.sha256) == (file.size, file.sha256):
        return []
    return [Wrong(key, f"has {_found(got.size, got.sha256, file.size)}, {file.sha256} was stored ({file.path})")]


def _pack(store: Store, listing: Listing, pack: Pack) -> list[Wrong]:
    key, index = listing.pack_key(pack), listing.index_key(pack)
    wrong: list[Wrong] = []
    entries: list[PackEntry] = []
    try:
        entries = list(read_pack_index(store, listing, pack))
    except ObjectMissing:
        wrong.append(Wrong(index, f"is gone ({pack.first} to {pack.last})"))
    except (DigestMismatch, CorruptFile, FormatError) as error:
        wrong.append(Wrong(index, str(error)))
    with TemporaryDirectory(prefix="mst-verify-") as folder:
        path = Path(folder) / "pack"
        try:
            got = store.get_to(key, path)
        except ObjectMissing:
            return [*wrong, Wrong(key, f"is gone ({pack.first} to {pack.last})")]
        names = _wrong_files(path, entries)
    if (got.size, got.sha256) != (pack.size, pack.sha256):
        which = f"; files: {', '.join(names[:20])}" if names else "; no listed file"
        wrong.append(Wrong(key, f"has {_found(got.size, got.sha256, pack.size)}, {pack.sha256} was stored{which}"))
    elif names:
        wrong.append(Wrong(index, f"names other bytes than the pack has: {', '.join(names[:20])}"))
    return wrong


def _wrong_files(path: Path, entries: list[PackEntry]) -> list[str]:
    names = []
    with path.open("rb") as source:
        for entry in entries:
            source.seek(entry.offset)
            if hashlib.sha256(source.read(entry.length)).hexdigest() != entry.sha256:
                names.append(entry.path)
    return names


def _found(size: int, sha256: str, expected: int) -> str:
    return f"{size} bytes instead of {expected}" if size != expected else f"SHA-256 {sha256}"
