"""A bundle folder as one file for transport: `tar.zst`, the same bytes from the same folder, unpacked under caps."""

from __future__ import annotations

import errno
import io
import os
import tarfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import IO, Any, Self

import zstandard

from mst.errors import CorruptFile, InfrastructureError

LEVEL = 6
CHUNK_BYTES = 1024 * 1024
FEED_BYTES = 1024
"""Compressed bytes taken at a time: four of them can hold 128 KiB, so this bounds what one step can blow up to."""
LONG_NAME_BYTES = 64 * 1024
OVERHEAD_BYTES = 4 * LONG_NAME_BYTES
OUR_DISK = {errno.ENOSPC, errno.EDQUOT, errno.EACCES, errno.EPERM, errno.EROFS, errno.EIO}


@dataclass(frozen=True, kw_only=True)
class Caps:
    """What a worker accepts, whatever a bundle says of itself. Checked before anything in it is read."""

    files: int = 200_000
    total_bytes: int = 8 * 1024**3
    file_bytes: int = 2 * 1024**3
    ratio: float = 200.0
    window_bytes: int = 128 * 1024**2


def pack(folder: Path, target: Path) -> None:
    """Write a folder as `tar.zst`. Reproducible: sorted names, no times, owners or modes but the executable bit."""
    compressor = zstandard.ZstdCompressor(level=LEVEL, write_checksum=True)
    with (
        target.open("wb") as raw,
        compressor.stream_writer(raw, closefd=False) as stream,
        tarfile.open(fileobj=stream, mode="w|", format=tarfile.PAX_FORMAT) as tar,
    ):
        for path in sorted(_files(folder), key=lambda found: found.relative_to(folder).as_posix()):
            with path.open("rb") as content:
                tar.addfile(_entry(path, path.relative_to(folder).as_posix()), content)


def _files(folder: Path) -> Iterator[Path]:
    for path in folder.rglob("*"):
        if path.is_file() and not path.is_symlink():
            yield path


def _entry(path: Path, name: str) -> tarfile.TarInfo:
    entry = tarfile.TarInfo(name)
    entry.size = path.stat().st_size
    entry.mode = 0o755 if os.access(path, os.X_OK) else 0o644
    return entry


def unpack(archive: Path, into: Path, caps: Caps | None = None) -> None:
    """Unpack a bundle into an empty folder.

    Raises:
        CorruptFile: truncated, not a bundle, over a cap, or an entry that would leave the folder, or is no plain file.
        InfrastructureError: this machine's disk is full or may not be written.
    """
    caps = caps or Caps()
    allowed = min(caps.total_bytes, int(archive.stat().st_size * caps.ratio) + CHUNK_BYTES)
    decompressor = zstandard.ZstdDecompressor(max_window_size=caps.window_bytes)
    into.mkdir(parents=True, exist_ok=True, mode=0o700)
    try:
        with archive.open("rb") as raw:
            stream = _Unzipped(raw, decompressor.decompressobj(), allowed + caps.files * 1024 + OVERHEAD_BYTES)
            with tarfile.open(fileobj=stream, mode="r|", tarinfo=_PlainEntry) as tar:
                _extract(tar, into, caps, allowed, str(archive))
            stream.finish()
    except (tarfile.TarError, zstandard.ZstdError, EOFError, OSError, ValueError) as error:
        if isinstance(error, OSError) and error.errno in OUR_DISK:
            raise InfrastructureError(f"{into}: cannot be written ({error.strerror}); free space there") from error
        raise CorruptFile(f"{archive}: truncated or not a bundle ({error}); it will be fetched again") from error


class _Unzipped(io.RawIOBase):
    """The decompressed stream, with bounded memory and length, that knows whether it came to its end."""

    def __init__(self, raw: IO[bytes], decompressor: Any, allowed_bytes: int) -> None:
        super().__init__()
        self._raw = raw
        self._decompressor = decompressor
        self._room = allowed_bytes
        self._held = b""

    def read(self, size: int = CHUNK_BYTES) -> bytes:
        """At most `size` bytes; fewer only at the end."""
        pieces = [self._held]
        found = len(self._held)
        while found < size and not self._decompressor.eof:
            fed = self._raw.read(FEED_BYTES)
            if not fed:
                raise EOFError("it ends in the middle")
            piece = self._decompressor.decompress(fed)
            self._room -= len(piece)
            if self._room < 0:
                raise EOFError("it is larger than this worker accepts")
            pieces.append(piece)
            found += len(piece)
        whole = b"".join(pieces)
        self._held = whole[size:]
        return whole[:size]

    def finish(self) -> None:
        """Read what follows the archive, and see that the frame is whole and the last.

        Raises:
            EOFError: it is not.
        """
        while self.read(CHUNK_BYTES):
            pass
        if self._decompressor.unused_data or self._raw.read(1):
            raise EOFError("something follows its end")


class _PlainEntry(tarfile.TarInfo):
    """Entries as `pack` writes them. All others are refused by their header, before their content is read."""

    @classmethod
    def frombuf(cls, buf: bytes | bytearray, encoding: str, errors: str) -> Self:
        entry = super().frombuf(buf, encoding, errors)
        if entry.type not in (tarfile.REGTYPE, tarfile.AREGTYPE, tarfile.XHDTYPE):
            raise ValueError(f"{entry.name!r} is not a plain file")
        if entry.type == tarfile.XHDTYPE and entry.size > LONG_NAME_BYTES:
            raise ValueError("a name is longer than any path may be")
        return entry


def _extract(tar: tarfile.TarFile, into: Path, caps: Caps, allowed_bytes: int, place: str) -> None:
    total = 0
    for count, entry in enumerate(tar, start=1):
        total += entry.size
        if count > caps.files or total > allowed_bytes or entry.size > caps.file_bytes:
            raise CorruptFile(f"{place}: larger than this worker accepts ({count} files, {total} bytes so far)")
        _check_entry(entry, place)
        target = into / entry.name
        target.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        source = tar.extractfile(entry)
        assert source is not None
        with target.open("xb") as stream:
            while piece := source.read(CHUNK_BYTES):
                stream.write(piece)
        if target.stat().st_size != entry.size:
            raise CorruptFile(f"{place}: {entry.name} is cut short")
        if entry.mode & 0o100:
            target.chmod(0o700)
        tar.members.clear()  # type: ignore[attr-defined]  # not in the stubs; else one entry a file stays in memory


def _check_entry(entry: tarfile.TarInfo, place: str) -> None:
    path = PurePosixPath(entry.name)
    if not entry.isreg() or entry.issparse():
        raise CorruptFile(f"{place}: {entry.name!r} is not a plain file")
    if path.is_absolute() or ".." in path.parts or "\\" in entry.name or "\0" in entry.name:
        raise CorruptFile(f"{place}: {entry.name!r} would leave the folder")
