"""Everything that a run's manifest lists, read and compared: any wrong byte is found and named."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

from mst.errors import CorruptFile, DigestMismatch, FormatError, NoChecksum, ObjectMissing
from mst.model.manifest import ManifestFile, Pack, PackEntry, RegradeClaim, SourceRun
from mst.store.commit import read_latest, read_shard
from mst.store.contract import Store
from mst.store.find import StoredRun, generations, list_evals, read_generation, read_run
from mst.store.layout import RunKeys, latest_key, shard_number
from mst.store.listing import Listing, read_pack_index
from mst.store.transfer import each
from mst.store.verify_dispatch import is_unit, read_record, verify_dispatch, verify_unit
from mst.store.wrong import REPLACED, UNLISTED, Wrong

VERIFIERS = 4
_NAMED = re.compile(r"/(?:blobs|packs|indexes|bundles|units)/([0-9a-f]{64})$")


def verify_run(
    store: Store, keys: RunKeys, *, workers: int = VERIFIERS, seen: set[str] | None = None
) -> Iterator[Wrong]:
    """Check every record of a run and of its dispatches, and every byte that their manifests list.

    Also what is named by its digest and listed by nobody: bundles, and what a push left; and units that no manifest
    lists yet. Each object is read once.
    Memory: one pack per worker, none of it kept.

    Args:
        store: where the run is.
        keys: of the run.
        workers: objects read at once.
        seen: keys of objects that were read before, which are passed over; what is read now is added.

    Raises:
        StoreUnavailable, StoreDenied: the store does not let itself be read.
    """
    seen = set() if seen is None else seen
    yield from _manifests(store, keys)
    yield from _records(store, keys)
    listings: list[Listing | Wrong] = []
    try:
        found = read_run(store, keys)
    except (CorruptFile, FormatError):
        found = None
    if found is not None:
        # A source first, since it lists more of a pack that both use.
        if (source := found.manifest.source) is not None:
            yield from _source(store, keys, source)
            listings.append(Listing.of_source(keys.eval_name, source))
        listings.append(Listing.of(found.manifest))
    yield from _listed(store, [*listings, *_shards(store, keys)], seen, workers)
    yield from _unlisted(store, keys, seen, workers)


def verify_latest(store: Store, eval_name: str) -> Iterator[Wrong]:
    """Check that an eval's `latest.json` can be read and names a run that is there."""
    try:
        record = read_latest(store, eval_name, proven=True)
    except NoChecksum as error:
        yield Wrong(latest_key(eval_name), str(error), unproven=True)
        record = read_latest(store, eval_name)
    except (CorruptFile, FormatError) as error:
        yield Wrong(latest_key(eval_name), str(error))
        return
    if record is not None and not generations(store, RunKeys(eval_name, record.run_id)):
        yield Wrong(RunKeys(eval_name, record.run_id).folder, "latest.json names this run, which has no manifest")


def verify_store(
    store: Store, eval_name: str | None = None, *, begun: Callable[[StoredRun], None] = lambda _run: None
) -> Iterator[Wrong]:
    """Check every run of a store, or of one eval of it. What several runs list is read once.

    Args:
        store: where they are.
        eval_name: only this eval.
        begun: told of each run before it is read.
    """
    nameless: list[CorruptFile] = []
    seen: set[str] = set()
    for name, run_ids in list_evals(store, eval_name, areas=("runs", "dispatches"), nameless=nameless.append):
        for keys in (RunKeys(name, run_id) for run_id in run_ids):
            # One that has no manifest yet may have dispatches under way, and objects that the next push relies on.
            if found := generations(store, keys):
                begun(StoredRun(name, keys.run_id, found[0]))
            yield from verify_run(store, keys, seen=seen)
        yield from verify_latest(store, name)
    for error in nameless:
        yield Wrong(str(error).removeprefix(f"{store.uri}: ").partition(": ")[0], str(error))


def _manifests(store: Store, keys: RunKeys) -> Iterator[Wrong]:
    after: tuple[int, str | None] | None = None
    for generation in generations(store, keys):
        # Generations are counted without gaps, and none is ever removed.
        if after is not None and generation != after[0] - 1:
            yield _gone(keys, after[0])
            after = None
        try:
            found = read_generation(store, keys, generation)
        except (CorruptFile, FormatError, ObjectMissing) as error:
            yield Wrong(keys.manifest(generation), str(error), REPLACED if after is not None else None)
            after = generation, None
            continue
        if after is not None and after[1] is not None and found.sha256 != after[1]:
            what = f"has SHA-256 {found.sha256}, its successor names {after[1]}"
            yield Wrong(keys.manifest(generation), what, REPLACED)
        after = generation, found.manifest.predecessor
    if after is not None and after[0] != 1:
        yield _gone(keys, after[0])


def _gone(keys: RunKeys, after: int) -> Wrong:
    return Wrong(keys.manifest(after - 1), f"is gone: generation {after} followed it", REPLACED)


def _records(store: Store, keys: RunKeys) -> Iterator[Wrong]:
    """Check what is small and written once beside manifests."""
    yield from read_record(store, keys.claim, RegradeClaim, run_id=keys.run_id)
    for dispatch in store.list_folder(keys.dispatches).folders:
        yield from verify_dispatch(store, keys.dispatch(dispatch))


def _source(store: Store, keys: RunKeys, source: SourceRun) -> Iterator[Wrong]:
    """The run that a regrade refers to was pushed before it, and no manifest is ever removed."""
    there = RunKeys(keys.eval_name, source.run_id)
    if source.generation not in generations(store, there):
        yield Wrong(there.manifest(source.generation), f"is gone: {keys.run_id} is a regrade of it")


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


def _listed(store: Store, listings: Iterable[Listing | Wrong], seen: set[str], workers: int) -> Iterator[Wrong]:
    def jobs() -> Iterator[Callable[[], list[Wrong]]]:
        for listing in listings:
            if isinstance(listing, Wrong):
                yield partial(list, [listing])
                continue
            for pack in listing.packs:
                # The same pack may be listed with another index.
                if (key := listing.index_key(pack)) not in seen:
                    seen.update((key, listing.pack_key(pack)))
                    yield partial(_pack, store, listing, pack)
            for file in listing.files:
                if (key := listing.file_key(file)) not in seen:
                    seen.add(key)
                    yield partial(_file, store, key, file)

    for wrong in each(lambda job: job(), jobs(), workers=workers):
        yield from wrong


def _unlisted(store: Store, keys: RunKeys, seen: set[str], workers: int) -> Iterator[Wrong]:
    """Bundles, leftovers that a push may rely on, units that a takeover may adopt: themselves say what they were."""

    def jobs() -> Iterator[Callable[[], list[Wrong]]]:
        for folder in (keys.folder, keys.dispatches):
            for info in store.list(folder):
                if info.key in seen:
                    continue
                if (named := _NAMED.search(info.key)) is not None:
                    seen.add(info.key)
                    yield partial(_named, store, info.key, named[1])
                elif is_unit(info.key):
                    seen.add(info.key)
                    yield partial(verify_unit, store, info.key)

    for wrong in each(lambda job: job(), jobs(), workers=workers):
        yield from wrong


def _named(store: Store, key: str, sha256: str) -> list[Wrong]:
    with TemporaryDirectory(prefix="mst-verify-") as folder:
        try:
            got = store.get_to(key, Path(folder) / "object")
        except ObjectMissing:
            return []
    if got.sha256 == sha256:
        return []
    remedy = UNLISTED if "/runs/" in key else None
    return [Wrong(key, f"has SHA-256 {got.sha256}; no manifest lists it", remedy)]


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
