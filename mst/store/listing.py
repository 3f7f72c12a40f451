"""What a manifest lists, and the keys of it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from mst.errors import CorruptFile, DigestMismatch
from mst.model.base import digest_bytes
from mst.model.manifest import ManifestFile, Pack, PackEntry, RunManifest, SourceRun
from mst.store.contract import Store
from mst.store.layout import RunKeys
from mst.store.pack import INDEX_MAX_BYTES, read_index


@dataclass(frozen=True, slots=True)
class Listing:
    """What a manifest lists, with the run that its short keys belong to."""

    keys: RunKeys
    files: list[ManifestFile]
    packs: list[Pack]

    @classmethod
    def of(cls, manifest: RunManifest) -> Listing:
        """The run's own files."""
        return cls(RunKeys(manifest.eval_name, manifest.run_id), manifest.files, manifest.packs)

    @classmethod
    def of_source(cls, eval_name: str, source: SourceRun) -> Listing:
        """The files of the run that a regrade refers to."""
        return cls(RunKeys(eval_name, source.run_id), source.files, source.packs)

    def file_key(self, file: ManifestFile) -> str:
        """The key of a file's object."""
        return file.object or self.keys.blob(file.sha256)

    def pack_key(self, pack: Pack) -> str:
        """The key of a pack."""
        return pack.object or self.keys.pack(pack.sha256)

    def index_key(self, pack: Pack) -> str:
        """The key of a pack's index."""
        return pack.index_object or self.keys.index(pack.index_sha256)

    def objects(self) -> Iterator[str]:
        """Every key that is listed."""
        yield from map(self.file_key, self.files)
        for pack in self.packs:
            yield self.pack_key(pack)
            yield self.index_key(pack)

    def for_another(self) -> tuple[list[ManifestFile], list[Pack]]:
        """Files and packs with all their keys, as another run's manifest lists them."""
        files = [file.model_copy(update={"object": self.file_key(file)}) for file in self.files]
        packs = [
            pack.model_copy(update={"object": self.pack_key(pack), "index_object": self.index_key(pack)})
            for pack in self.packs
        ]
        return files, packs


def read_pack_index(store: Store, listing: Listing, pack: Pack) -> Iterator[PackEntry]:
    """The entries of a listed pack, checked against the manifest.

    Raises:
        ObjectMissing: the index is gone.
        DigestMismatch: it has other bytes than the manifest says; names the object.
        CorruptFile: it is longer, or has those bytes and they are no index of this pack.
    """
    key = listing.index_key(pack)
    if pack.index_size > INDEX_MAX_BYTES:
        raise CorruptFile(
            f"{store.uri}: {key} is listed with {pack.index_size} bytes, an index has {INDEX_MAX_BYTES} at most"
        )
    data = store.get(key, max_bytes=pack.index_size)
    found = digest_bytes(data)
    if found != pack.index_sha256:
        raise DigestMismatch(f"{store.uri}: the object {key} is corrupt: SHA-256 {found}, {pack.index_sha256} stored")
    return read_index(data, f"{store.uri}: {key}", pack=pack.sha256, pack_size=pack.size, files=pack.files)
