"""Units of a shard's attempts as a takeover finds them in the store, whether single objects or in packs."""

from __future__ import annotations

import hashlib
import os
import secrets
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from mst.errors import CorruptFile, DigestMismatch, FormatError, ObjectMissing, StoreError
from mst.model.base import digest_bytes
from mst.model.manifest import ManifestFile, Pack, PackEntry, PackHeader, ShardManifest
from mst.store.contract import Store
from mst.store.fetch import fetch_file
from mst.store.layout import RunKeys, ShardKeys, index_key, pack_key
from mst.store.listing import Listing
from mst.store.pack import INDEX_MAX_BYTES, PackIndex, read_index
from mst.store.transfer import run_each
from mst.store.unpack import read_pack

UNIT_MAX_BYTES = 64 * 1024 * 1024


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
        units = f"{keys.units(attempt)}/"
        found = {info.key: info.size for info in store.list(self._folder)}
        for key in sorted(found):
            if key.startswith(units):
                self._singles[key.removeprefix(units)] = key
            elif key.startswith(f"{self._folder}/indexes/"):
                self._learn(key, found)

    @property
    def names(self) -> set[str]:
        """Everything that is there, not looked into."""
        return {*self._singles, *self._packed}

    def read(self, name: str, *, max_bytes: int = UNIT_MAX_BYTES) -> tuple[ManifestFile | PackEntry, bytes]:
        """A file's bytes, and how a manifest lists it.

        Raises:
            ObjectMissing: it is not there.
            DigestMismatch: a packed file has other bytes than its index says.
            StoreError: it is larger than allowed.
        """
        packed = self._packed.get(name)
        if packed is not None:
            if packed.entry.size > max_bytes:
                raise StoreError(f"{self._store.uri}: {name} has {packed.entry.size} bytes, more than {max_bytes}")
            key, entry = packed.pack.object or "", packed.entry
            data = self._store.get_range(key, entry.offset, entry.length)
            if hashlib.sha256(data).hexdigest() != entry.sha256:
                raise DigestMismatch(f"{self._store.uri}: the object {key} is corrupt at {entry.offset} ({entry.path})")
            return entry, data
        if name not in self._singles:
            raise ObjectMissing(f"{self._store.uri}: no {name} in {self._folder}")
        key = self._singles[name]
        data = self._store.get(key, max_bytes=max_bytes)
        return ManifestFile(path=f"units/{name}", size=len(data), sha256=digest_bytes(data), object=key), data

    def listed(self, names: Iterable[str], *, into: str) -> list[Pack]:
        """Packs that hold exactly these packed files, for a manifest; names of single objects are left out.

        A pack of which only some files are wanted gets a shorter index, which is put now.

        Args:
            names: of files.
            into: the folder of the attempt that makes the manifest.
        """
        by_pack: dict[str, list[_Packed]] = {}
        for name in names:
            if (packed := self._packed.get(name)) is not None:
                by_pack.setdefault(packed.pack.index_sha256, []).append(packed)
        return [self._part(by_pack[digest], into) for digest in sorted(by_pack)]

    def _part(self, wanted: list[_Packed], into: str) -> Pack:
        whole = wanted[0].pack
        index = PackIndex(whole.sha256, whole.size)
        for packed in sorted(wanted, key=lambda packed: (packed.entry.offset, packed.entry.path)):
            index.add(packed.entry)
        data, pack = index.finish(files=len(wanted))
        key = whole.index_object
        if pack.index_sha256 != whole.index_sha256:
            key = index_key(into, pack.index_sha256)
            self._store.put(key, data, sha256=pack.index_sha256)
        return pack.model_copy(update={"object": whole.object, "index_object": key})

    def _learn(self, key: str, found: dict[str, int]) -> None:
        digest = key.rpartition("/")[2]
        try:
            data = self._store.get(key, max_bytes=INDEX_MAX_BYTES)
            if digest_bytes(data) != digest:
                return
            header = PackHeader.from_json(data[: data.find(b"\n") + 1], key)
            entries = list(read_index(data, key, pack=header.pack, pack_size=header.pack_size))
        except (ObjectMissing, CorruptFile, FormatError):
            return
        packed = pack_key(self._folder, header.pack)
        if found.get(packed) != header.pack_size or not entries:
            return
        pack = _pack_of(header, data, entries, packed, key)
        self._packed |= {entry.path.rpartition("/")[2]: _Packed(pack, entry) for entry in entries}


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


def fetch_shard(store: Store, manifest: ShardManifest, into: Path, *, workers: int = 8) -> None:
    """Bring everything that a shard's manifest lists below a folder, every byte checked. Each file is atomic.

    Files that are there with the listed size stay: whoever put them there has checked them.

    Raises:
        DigestMismatch: an object has other bytes; names it.
        StoreError: an object is gone.
    """
    listing = Listing(RunKeys(manifest.eval_name, manifest.run_id), manifest.files, manifest.packs)
    jobs: Iterator[Callable[[], None]] = _jobs(store, listing, into)
    run_each(lambda job: job(), jobs, workers=workers)


def _jobs(store: Store, listing: Listing, into: Path) -> Iterator[Callable[[], None]]:
    for file in listing.files:
        yield lambda file=file: _bring(store, listing.file_key(file), file, into / file.path)  # type: ignore[misc]  # mypy can't infer a lambda's default
    for pack in listing.packs:
        yield lambda pack=pack: _unpack(store, listing, pack, into)  # type: ignore[misc]  # as above


def _bring(store: Store, key: str, file: ManifestFile, target: Path) -> None:
    if _is_there(target, file.size):
        return
    target.parent.mkdir(parents=True, exist_ok=True)
    temporary = target.with_name(f".{target.name[:100]}.{secrets.token_hex(6)}")
    try:
        fetch_file(store, key, temporary, size=file.size, sha256=file.sha256)
    except ObjectMissing as error:
        raise StoreError(f"{store.uri}: the object {key} ({file.path}) is listed but gone") from error
    temporary.replace(target)


def _unpack(store: Store, listing: Listing, pack: Pack, into: Path) -> None:
    for entry, content in read_pack(store, listing, pack):
        target = into / entry.path
        if not _is_there(target, entry.size):
            target.parent.mkdir(parents=True, exist_ok=True)
            temporary = target.with_name(f".{target.name[:100]}.{secrets.token_hex(6)}")
            temporary.write_bytes(content)
            os.replace(temporary, target)  # noqa: PTH105 - once per file
        del content


def _is_there(path: Path, size: int) -> bool:
    try:
        return path.stat().st_size == size
    except FileNotFoundError:
        return False
