"""Files by content: whoever needs a file names its digest, and a source knows where the bytes lie here."""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import stat
import threading
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import BinaryIO, Protocol

from mst.errors import CorruptFile, DigestMismatch, InfrastructureError, ObjectMissing
from mst.model.base import FileRef

CHUNK_BYTES = 1024 * 1024
MAX_STORED_BYTES = 1024 * 1024 * 1024
"""More than any document of ours has: one that is larger is something else, and is not read into memory."""
MAX_LINE_BYTES = 256 * 1024 * 1024
"""The same for a line of `results.json` or `cases.jsonl`: one case with all its trials."""


class FileSource(Protocol):
    """Finds the bytes of a digest on this machine."""

    def locate(self, sha256: str) -> Path:
        """A readable path of the file with this digest; the caller must not change it. May block to fetch it.

        Raises:
            ObjectMissing: nobody has it.
        """
        ...


class IndexedFiles:
    """Files where they are, by digest: an index over config and case folders."""

    def __init__(self) -> None:
        self._paths: dict[str, Path] = {}

    def add(self, root: Path, relative: str) -> FileRef:
        """Read one file below a root, remember where it lies, and return it by content."""
        path = root / relative
        ref = FileRef(
            path=relative, sha256=hash_file(path), size=path.stat().st_size, executable=os.access(path, os.X_OK)
        )
        self._paths[ref.sha256] = path
        return ref

    def locate(self, sha256: str) -> Path:
        """See `FileSource.locate`."""
        try:
            return self._paths[sha256]
        except KeyError:
            raise ObjectMissing(f"no file with digest {sha256} belongs to this eval") from None


class FolderFiles:
    """A folder whose files are named by their digests, as in a bundle or a run's `inputs/files`."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def locate(self, sha256: str) -> Path:
        """See `FileSource.locate`."""
        path = self.folder / sha256
        if not path.is_file():
            raise ObjectMissing(f"{path}: this file is missing")
        return path


def hash_file(path: Path) -> str:
    """SHA-256 of a file, read in pieces."""
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def place(files: Iterable[FileRef], source: FileSource, into: Path) -> None:
    """Copy files to their paths below a folder. Later ones win, so that overlays can follow a base.

    Raises:
        ObjectMissing: the source lacks one.
        DigestMismatch: a source's bytes differ from the digest; nothing is left at that path.
    """
    for file in files:
        target = into / file.path
        target.parent.mkdir(parents=True, exist_ok=True)
        found = source.locate(file.sha256)
        shutil.copyfile(found, target)
        if hash_file(target) != file.sha256:
            target.unlink()
            raise DigestMismatch(f"{found}: changed since it was recorded (for {file.path}); resolve the eval again")
        if file.executable:
            target.chmod(0o755)


def open_stored(path: Path) -> BinaryIO:
    """Open a file that mst wrote. What stands in its place may be anything by now, and opening it must not wait.

    Raises:
        FileNotFoundError: nothing is there; what that means is the caller's to say.
        CorruptFile: a folder, a pipe, a device, a link in circles, or nothing that may be read.
    """
    handle, _size = _open_stored(path)
    return os.fdopen(handle, "rb")


def read_stored(path: Path | str) -> bytes:
    """The bytes of a document that mst wrote. Raises as `open_stored` does; CorruptFile also beyond all bounds."""
    handle, size = _open_stored(path)
    try:
        if size > MAX_STORED_BYTES:
            raise CorruptFile(f"{path}: {size} bytes are more than mst ever writes there")
        # A run has many small documents: a stream around each costs more than reading it.
        pieces = [os.read(handle, size + 1)]
        while pieces[-1]:
            pieces.append(os.read(handle, CHUNK_BYTES))
        return b"".join(pieces)
    finally:
        os.close(handle)


def _open_stored(path: Path | str) -> tuple[int, int]:
    """Handle and size."""
    try:
        handle = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except FileNotFoundError:
        raise
    except OSError as error:
        raise CorruptFile(f"{path}: cannot be read ({error.strerror})") from error
    found = os.fstat(handle)
    if not stat.S_ISREG(found.st_mode):
        os.close(handle)
        raise CorruptFile(f"{path}: is no plain file")
    return handle, found.st_size


def stored_lines(path: Path) -> Iterator[bytes]:
    """The lines of a file that mst wrote, each with its end; bounded line by line."""
    with open_stored(path) as stream:
        while line := stream.readline(MAX_LINE_BYTES + 1):
            if len(line) > MAX_LINE_BYTES:
                raise CorruptFile(f"{path}: one of its lines is longer than mst ever writes there")
            yield line


_NEW = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC
_HALF = re.compile(r"\..+\.\d+\.\d+\.tmp")
"""Names of files that `write_atomic` has not finished."""


def flush_files(paths: Iterable[Path]) -> None:
    """Wait until the disk has files that are there already.

    Raises:
        InfrastructureError: one cannot be read, or the disk refuses.
    """
    for path in paths:
        try:
            with path.open("rb") as stream:
                os.fsync(stream.fileno())
        except OSError as error:
            raise InfrastructureError(f"{path}: cannot be flushed to the disk ({error.strerror})") from error


def write_atomic(path: Path | str, data: bytes | memoryview, *, flush: bool = True) -> None:
    """Replace a small file so that a reader, or a crash at any moment, sees the old bytes or the new ones.

    Temporary name in the same folder, fsync, rename. Parents are made.

    Args:
        path: what is replaced.
        data: the new bytes.
        flush: wait until the disk has them. Without it a machine that loses its power may lose the file.

    Raises:
        InfrastructureError: the disk is full or may not be written; the old file stands.
    """
    temporary = _beside(path)
    try:
        handle = _written(temporary, data)
        try:
            if flush:
                os.fsync(handle)
        finally:
            os.close(handle)
        os.replace(temporary, path)  # noqa: PTH105 - done for every trial, and a path costs more than the call
    except OSError as error:
        discard(Path(temporary))
        raise _not_written(path, error) from error


def write_together(files: Mapping[str, bytes]) -> None:
    """`write_atomic` for several files, given by path, with one wait for the disk.

    A disk that has begun to write all of them before one is waited for writes its journal once. None has its own name
    before all of them are there.

    Raises:
        InfrastructureError: as there; those that were renamed already stay.
    """
    waiting: list[tuple[int, str, str]] = []
    path = ""
    try:
        for path, data in files.items():
            temporary = _beside(path)
            waiting.append((_written(temporary, data), temporary, path))
        for handle, _, _ in waiting:
            _begin_flushing(handle)
        for handle, _, path in waiting:  # noqa: B007 - the error names it
            os.fsync(handle)
        for _, temporary, path in waiting:
            os.replace(temporary, path)  # noqa: PTH105 - as above
    except OSError as error:
        for _, temporary, _ in waiting:
            discard(Path(temporary))
        discard(Path(_beside(path)))
        raise _not_written(path, error) from error
    finally:
        for handle, _, _ in waiting:
            os.close(handle)


def _beside(path: Path | str) -> str:
    """The name under which what replaces a file is written."""
    folder, slash, name = str(path).rpartition("/")
    return f"{folder}{slash}.{name}.{os.getpid()}.{threading.get_ident()}.tmp"


def _written(path: str, data: bytes | memoryview) -> int:
    """A new file with these bytes, open. Parents are made."""
    try:
        handle = os.open(path, _NEW, 0o644)
    except FileNotFoundError:
        Path(path).parent.mkdir(parents=True, exist_ok=True)
        handle = os.open(path, _NEW, 0o644)
    try:
        left = memoryview(data)
        while left:
            left = left[os.write(handle, left) :]
    except OSError:
        os.close(handle)
        raise
    return handle


def _begin_flushing(handle: int) -> None:
    """Let the disk begin to write a file, and do not wait for it: what is asked not to be kept is written first."""
    if hasattr(os, "posix_fadvise"):  # not on macOS
        os.posix_fadvise(handle, 0, 0, os.POSIX_FADV_DONTNEED)


def _not_written(path: Path | str, error: OSError) -> InfrastructureError:
    return InfrastructureError(f"{path}: cannot be written ({error.strerror}); free space or fix permissions")


def discard(path: Path) -> None:
    """Remove a file that did not come whole. Where even that is refused, the error that led here says more."""
    with suppress(OSError):
        path.unlink()


def remove_halves(folder: Path, *, besides: Collection[str] = ()) -> int:
    """Remove what `write_atomic` of processes that were killed left below a folder; returns how many files.

    Nobody may be writing there: the caller holds the folder's lock, and has not begun.

    Args:
        folder: looked through; hidden folders are left alone.
        besides: names of folders that are left alone too, since others name the files there.
    """
    removed = 0
    for place, folders, names in os.walk(folder):
        folders[:] = [name for name in folders if not name.startswith(".") and name not in besides]
        for name in names:
            if _HALF.fullmatch(name):
                Path(place, name).unlink(missing_ok=True)
                removed += 1
    return removed
