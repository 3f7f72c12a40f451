"""Units of a shard's attempts as a takeover finds them in the store, whether single objects or in packs."""

from __future__ import annotations

import secrets
import threading
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from mst.config.files import write_atomic
from mst.errors import CorruptFile, DigestMismatch, FormatError, ObjectMissing, WrongSize
from mst.model.base import digest_bytes
from mst.model.manifest import ManifestFile, Pack, PackEntry, PackHeader, ShardManifest
from mst.store.contract import Store, is_segment
from mst.store.fetch import fetch_file
from mst.store.layout import RunKeys, ShardKeys, index_key, pack_key
from mst.store.listing import Listing, read_pack_index
from mst.store.pack import INDEX_MAX_BYTES, PackIndex, Window, read_index, windows
from mst.store.streams import local_error
from mst.store.transfer import each
from mst.store.unpack import read_window

UNIT_MAX_BYTES = 64 * 1024 * 1024
_FOLDERS = ("units", "artifacts")
READERS = 8
"""Single objects and ranges of packs in transfer at once."""


@dataclass(frozen=True)
class _Packed:
    """A file in an attempt's pack."""

    pack: Pack
    entry: PackEntry


class StoredUnits:
    """What one attempt left in the store. Names are those of files: a unit's, or an artifact's digest.

    A unit counts as stored when its object is there, or its index is. An index that cannot be read, or whose pack is
    gone, is passed over: whoever wrote it reported nothing of it as stored, or the store lost it.
    """

    def __init__(self, store: Store, keys: ShardKeys, attempt: str) -> None:
        """List the attempt's folder once and read its indexes: one request, and one for each pack."""
        self._store = store
        self._folder = keys.attempt(attempt)
        self._singles: dict[str, str] = {}
        self._packed: dict[str, _Packed] = {}
        self._sizes: dict[str, int] = {}
        self._read: dict[str, str] = {}
        units = f"{keys.units(attempt)}/"
        found = {info.key: info.size for info in store.list(self._folder)}
        for key in sorted(found):
            name = key.removeprefix(units)
            if key.startswith(units) and is_segment(name):
                self._singles[name], self._sizes[name] = key, found[key]
            elif key.startswith(f"{self._folder}/indexes/"):
                self._learn(key, found)

    @property
    def names(self) -> set[str]:
        """Everything that is there, not looked into."""
        return {*self._singles, *self._packed}

    def holds(self, name: str, size: int) -> bool:
        """Whether a file of this name and size is there."""
        return self._sizes.get(name) == size

    def read(self, names: Iterable[str], *, max_bytes: int = UNIT_MAX_BYTES) -> Iterator[tuple[str, bytes]]:
        """The bytes of files, neighbours in a pack with one request. In no promised order.

        Passed over: what is not there, is larger than allowed, or, in a pack, has other bytes than its index says.
        """
        wanted = self.names.intersection(names)
        singles = [name for name in wanted if name not in self._packed and self._sizes[name] <= max_bytes]
        by_pack: dict[str, list[PackEntry]] = {}
        for name in wanted & self._packed.keys():
            packed = self._packed[name]
            if packed.entry.size <= max_bytes:
                by_pack.setdefault(packed.pack.object or "", []).append(packed.entry)
        jobs: list[Callable[[], list[tuple[str, bytes]]]] = []
        jobs += [partial(self._read_single, name, max_bytes) for name in singles]
        for key, entries in by_pack.items():
            jobs += [partial(self._read_window, key, window) for window in windows(sorted(entries, key=_place))]
        for found in each(lambda job: job(), jobs, workers=READERS, window=2):
            yield from found

    def _read_single(self, name: str, max_bytes: int) -> list[tuple[str, bytes]]:
        try:
            data = self._store.get(self._singles[name], max_bytes=max_bytes)
        except (ObjectMissing, WrongSize):
            return []
        self._read[name], self._sizes[name] = digest_bytes(data), len(data)
        return [(name, data)]

    def _read_window(self, key: str, window: Window) -> list[tuple[str, bytes]]:
        try:
            found = read_window(self._store, key, window, wrong=lambda _: None)
            return [(_name(entry), bytes(content)) for entry, content in found]
        except (ObjectMissing, WrongSize):
            return []

    def listed(self, names: Iterable[str]) -> tuple[list[ManifestFile], list[Pack]]:
        """These files as a manifest lists them: single objects, and packs that hold exactly the packed ones.

        A pack of which only some files are wanted gets a shorter index, which is put now, beside the pack's own.

        Args:
            names: of files; units among them that are single objects were read before.
        """
        files, by_pack = [], dict[str, list[_Packed]]()
        for name in sorted(names):
            if (packed := self._packed.get(name)) is not None:
                by_pack.setdefault(packed.pack.index_sha256, []).append(packed)
            else:
                files.append(self._single(name))
        return files, [self._part(by_pack[digest]) for digest in sorted(by_pack)]

    def _single(self, name: str) -> ManifestFile:
        own = self._read.get(name)
        path = f"units/{name}" if own is not None else f"artifacts/{name}"
        return ManifestFile(path=path, size=self._sizes[name], sha256=own or name, object=self._singles[name])

    def _part(self, wanted: list[_Packed]) -> Pack:
        whole = wanted[0].pack
        index = PackIndex(whole.sha256, whole.size)
        for packed in sorted(wanted, key=lambda packed: _place(packed.entry)):
            index.add(packed.entry)
        data, pack = index.finish(files=len(wanted))
        key = whole.index_object
        if pack.index_sha256 != whole.index_sha256:
            key = index_key(self._folder, pack.index_sha256)
            self._store.put(key, data, sha256=pack.index_sha256)
        return pack.model_copy(update={"object": whole.object, "index_object": key})

    def _learn(self, key: str, found: dict[str, int]) -> None:
        digest = key.rpartition("/")[2]
        try:
            data = self._store.get(key, max_bytes=INDEX_MAX_BYTES)
            if digest_bytes(data) != digest:
                return
            header = PackHeader.from_json(data[: data.find(b"\n") + 1], key)
            found_in = read_index(data, key, pack=header.pack, pack_size=header.pack_size, files=header.files)
            entries = [entry for entry in found_in if _is_of_unit(entry.path)]
        except (ObjectMissing, CorruptFile, FormatError):
            return
        packed = pack_key(self._folder, header.pack)
        if found.get(packed) != header.pack_size or not entries:
            return
        pack = _pack_of(header, data, entries, packed, key)
        for entry in entries:
            name = _name(entry)
            self._packed[name] = _Packed(pack, entry)
            self._sizes[name] = entry.size


def _is_of_unit(path: str) -> bool:
    """Whether a path can be a unit's or an artifact's: what an attempt lists otherwise goes nowhere."""
    folder, _, name = path.partition("/")
    return folder in _FOLDERS and is_segment(name)


def _name(entry: PackEntry) -> str:
    return entry.path.rpartition("/")[2]


def _place(entry: PackEntry) -> tuple[int, str]:
    return entry.offset, entry.path


def _pack_of(header: PackHeader, data: bytes, entries: list[PackEntry], key: str, index: str) -> Pack:
    paths = [entry.path for entry in entries]
    return Pack(
        sha256=header.pack,
        size=header.pack_size,
        index_sha256=digest_bytes(data),
        index_size=len(data),
        files=len(entries),
        first=min(paths),
        last=max(paths),
        object=key,
        index_object=index,
    )


def fetch_shard(store: Store, manifest: ShardManifest, into: Path, *, workers: int = READERS) -> list[str]:
    """Bring everything that a shard's manifest lists below a folder, every byte checked. Each file is atomic.

    Files that are there with the listed size stay: whoever put them there has checked them.

    Returns:
        What could not be had, since its object is gone or holds other bytes; each names its object, and the file if
        only that is wrong. The rest was brought.
    """
    listing = Listing(RunKeys(manifest.eval_name, manifest.run_id), manifest.files, manifest.packs)
    return fetch_listed(store, listing, into, workers=workers)


def fetch_listed(store: Store, listing: Listing, into: Path, *, workers: int = READERS) -> list[str]:
    """`fetch_shard` for any listing of units."""
    # threads that make small files at once hand the interpreter to each other at each call to the system: `Unpacker`
    turn = threading.Lock()

    def bring(item: ManifestFile | Pack) -> list[str]:
        if isinstance(item, Pack):
            return _unpack(store, listing, item, into, turn)
        if not _is_of_unit(item.path):
            return [_foreign(store, listing.file_key(item), item.path)]
        return _bring(store, listing.file_key(item), item, into / item.path)

    items: list[ManifestFile | Pack] = [*listing.files, *listing.packs]
    return [fault for faults in each(bring, items, workers=workers) for fault in faults]


def _bring(store: Store, key: str, file: ManifestFile, target: Path) -> list[str]:
    if _is_there(target, file.size):
        return []
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise local_error("write", target, error) from error
    temporary = target.with_name(f".{target.name[:100]}.{secrets.token_hex(6)}")
    try:
        fetch_file(store, key, temporary, size=file.size, sha256=file.sha256)
    except ObjectMissing:
        return [f"{store.uri}: the object {key} ({file.path}) is listed but gone"]
    except DigestMismatch as error:
        return [f"{error} ({file.path})"]
    try:
        temporary.replace(target)
    except OSError as error:
        temporary.unlink(missing_ok=True)
        raise local_error("write", target, error) from error
    return []


def _foreign(store: Store, key: str, path: str) -> str:
    return f"{store.uri}: the object {key} is listed as {path}, which is no unit and no artifact"


def _unpack(store: Store, listing: Listing, pack: Pack, into: Path, turn: threading.Lock) -> list[str]:
    faults: list[str] = []
    key = listing.index_key(pack)
    try:
        entries: list[PackEntry] = []
        for one in read_pack_index(store, listing, pack):
            if not _is_of_unit(one.path):
                faults.append(_foreign(store, key, one.path))
            elif not _is_there(into / one.path, one.size):
                entries.append(one)
        key = listing.pack_key(pack)
        for window in windows(entries):
            found = read_window(store, key, window, wrong=lambda error: faults.append(str(error)))
            with turn:
                for entry, content in found:
                    write_atomic(f"{into}/{entry.path}", content, flush=False)
    except ObjectMissing:
        faults.append(f"{store.uri}: the object {key} ({pack.first} to {pack.last}) is listed but gone")
    except (DigestMismatch, CorruptFile, FormatError) as error:
        faults.append(str(error))
    return faults


def _is_there(path: Path, size: int) -> bool:
    try:
        return path.stat().st_size == size
    except (FileNotFoundError, NotADirectoryError):
        return False
