"""Bytes on their way between files and stores, digested as they go by."""

from __future__ import annotations

import errno
import hashlib
import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

from mst.errors import DigestMismatch, StoreError
from mst.store.contract import Digested

CHUNK_BYTES = 1024 * 1024
FULL = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})
"""What the system says when there is no room."""
_NEW = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC


def read_chunks(path: Path) -> Iterator[bytes]:
    """A file's bytes in pieces of one MiB."""
    with path.open("rb") as source:
        while chunk := source.read(CHUNK_BYTES):
            yield chunk


def file_size(path: Path) -> int:
    """Size of a local file in bytes.

    Raises:
        StoreError: it cannot be read.
    """
    with _local("read", path):
        return path.stat().st_size


def read_small(path: Path) -> bytes:
    """A small local file's bytes.

    Raises:
        StoreError: it cannot be read.
    """
    with _local("read", path):
        return path.read_bytes()


def digest_file(path: Path) -> Digested:
    """Size and digest of a file, read once.

    Raises:
        StoreError: it cannot be read.
    """
    seen, size = hashlib.sha256(), 0
    for chunk in _local_chunks(path):
        seen.update(chunk)
        size += len(chunk)
    return Digested(size, seen.hexdigest())


def checked(chunks: Iterable[bytes | memoryview], sha256: str | None, what: str) -> Iterator[bytes | memoryview]:
    """The same pieces; ends with an error when their digest is not the promised one. No promise, no check.

    Raises:
        DigestMismatch: naming `what`.
    """
    if sha256 is None:
        yield from chunks
        return
    seen = hashlib.sha256()
    for chunk in chunks:
        seen.update(chunk)
        yield chunk
    if seen.hexdigest() != sha256:
        raise DigestMismatch(f"{what}: its bytes have SHA-256 {seen.hexdigest()}, not {sha256} as promised")


def pieces(data: bytes | memoryview | Path, sha256: str | None) -> Iterator[bytes | memoryview]:
    """What a `put` sends, checked against its digest.

    Raises:
        DigestMismatch: see `checked`.
        StoreError: the file cannot be read.
    """
    if isinstance(data, Path):
        return checked(_local_chunks(data), sha256, str(data))
    return checked([data] if data else [], sha256, "data for the store")


def save(chunks: Iterable[bytes | memoryview], path: Path) -> Digested:
    """Write pieces to a file, which does not exist after an error. Not flushed to disk.

    Raises:
        StoreError: the file cannot be written.
    """
    seen, size = hashlib.sha256(), 0
    try:
        with _local("write", path):
            handle = os.open(path, _NEW, 0o666)
        try:
            for chunk in chunks:
                seen.update(chunk)
                size += len(chunk)
                with _local("write", path):
                    write_all(handle, chunk)
        finally:
            # Some file systems say only now that there is no room.
            with _local("write", path):
                os.close(handle)
    except BaseException:
        path.unlink(missing_ok=True)
        raise
    return Digested(size, seen.hexdigest())


def write_all(handle: int, data: bytes | memoryview) -> None:
    """Write bytes to an open file, in as many calls as the system wants."""
    view = memoryview(data)
    while view:
        view = view[os.write(handle, view) :]


def _local_chunks(path: Path) -> Iterator[bytes]:
    with _local("read", path):
        yield from read_chunks(path)


@contextmanager
def _local(action: str, path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise local_error(action, path, error) from error


def local_error(action: str, path: Path | str, error: OSError) -> StoreError:
    """What this machine's disk refused, in one line."""
    mend = "; free some space there" if error.errno in FULL else ""
    return StoreError(f"cannot {action} {path}: {error.strerror or error}{mend}")
