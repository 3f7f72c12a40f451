"""A bundle folder as one file for transport: `tar.zst`, the same bytes from the same folder, unpacked under caps."""

from __future__ import annotations

import io
import os
import tarfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import IO

from mst.errors import CorruptFile

LEVEL = 6
CHUNK_BYTES = 1024 * 1024


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
    import zstandard

    compressor = zstandard.ZstdCompressor(level=LEVEL, write_checksum=True)
    with (
        target.open("wb") as raw,
        compressor.stream_writer(raw, closefd=False) as stream,
        tarfile.open(fileobj=stream, mode="w|", format=tarfile.PAX_FORMAT) as tar,
    ):
        for path in sorted(_files(folder), key=lambda found: found.relative_to(folder).as_posix()):
            tar.addfile(_entry(path, path.relative_to(folder).as_posix()), _opened(path))


def _files(folder: Path) -> Iterator[Path]:
    for path in folder.rglob("*"):
        if path.is_file() and not path.is_symlink():
            yield path


def _opened(path: Path) -> IO[bytes]:
    # bundles are made of files that mst wrote itself; their number is bounded by the caps of the reader
    return io.BytesIO(path.read_bytes()) if path.stat().st_size < CHUNK_BYTES else path.open("rb")


def _entry(path: Path, name: str) -> tarfile.TarInfo:
    entry = tarfile.TarInfo(name)
    entry.size = path.stat().st_size
    entry.mode = 0o755 if os.access(path, os.X_OK) else 0o644
    return entry


def unpack(archive: Path, into: Path, caps: Caps | None = None) -> None:
    """Unpack a bundle into an empty folder.

    Raises:
        CorruptFile: truncated, not a bundle, over a cap, or an entry that would leave the folder, or is no plain file.
    """
    import zstandard

    caps = caps or Caps()
    allowed = min(caps.total_bytes, int(archive.stat().st_size * caps.ratio) + CHUNK_BYTES)
    decompressor = zstandard.ZstdDecompressor(max_window_size=caps.window_bytes)
    into.mkdir(parents=True, exist_ok=True, mode=0o700)
    try:
        with (
            archive.open("rb") as raw,
            decompressor.stream_reader(raw) as stream,
            tarfile.open(fileobj=stream, mode="r|") as tar,
        ):
            _extract(tar, into, caps, allowed, str(archive))
    except (tarfile.TarError, zstandard.ZstdError, EOFError, OSError) as error:
        raise CorruptFile(f"{archive}: truncated or not a bundle ({error}); it will be fetched again") from error


def _extract(tar: tarfile.TarFile, into: Path, caps: Caps, allowed_bytes: int, place: str) -> None:
    count = total = 0
    for entry in tar:
        count += 1
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


def _check_entry(entry: tarfile.TarInfo, place: str) -> None:
    path = PurePosixPath(entry.name)
    if not entry.isreg():
        raise CorruptFile(f"{place}: {entry.name!r} is not a plain file")
    if path.is_absolute() or ".." in path.parts or "\\" in entry.name or "\0" in entry.name:
        raise CorruptFile(f"{place}: {entry.name!r} would leave the folder")
