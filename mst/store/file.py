"""`file:PATH`: a store in a folder of a local or network disk, with its own durable commit.

A write goes to a temporary file in the target's folder, is flushed to disk, gets its name in one step (an exclusive
link, or a rename that replaces), and the folder is flushed. A crash at any point leaves the old object or the new one,
and perhaps a temporary file, which no listing shows. Names that begin with a dot are the store's own.
"""

from __future__ import annotations

import errno
import fcntl
import hashlib
import os
import secrets
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path

from mst.errors import ObjectMissing, PreconditionFailed, StoreDenied, StoreError, StoreUnavailable, WrongSize
from mst.store.contract import (
    GET_MAX_BYTES,
    Digested,
    Folder,
    ObjectInfo,
    check_key,
    check_prefix,
    check_range,
    is_segment,
)
from mst.store.streams import FULL, pieces, read_chunks, save, write_all

LOCK_WAIT_S = 10.0
_LOCK_POLL_S = 0.005
_FOLDER_TRIES = 16
_DENIED = {errno.EACCES, errno.EPERM, errno.EROFS}
_LATER = {errno.EIO, errno.ESTALE, errno.ETIMEDOUT, errno.EAGAIN, errno.EINTR, errno.EMFILE, errno.ENFILE} | {
    # a share that is away; an automounter that cannot mount says ELOOP
    *(errno.ELOOP, errno.ENODEV, errno.ENXIO, errno.ENOTCONN, errno.ESHUTDOWN, errno.ECONNRESET, errno.ECONNABORTED),
    *(errno.ECONNREFUSED, errno.EHOSTDOWN, errno.EHOSTUNREACH, errno.ENETDOWN, errno.ENETUNREACH),
}
_NO_LINKS = {errno.EPERM, errno.ENOTSUP, errno.ENOSYS}
"""What the system says of a link that a file system does not know: the folder has just taken a file."""
_PACE = threading.Event()


class FileStore:
    """A store in a folder, which is made by the first write. Several processes and machines may use it at once."""

    def __init__(self, root: Path) -> None:
        # one spelling for one folder: what names objects by it is compared with it
        self._root = Path(os.path.abspath(root))  # noqa: PTH100 - links stay: another machine may have others
        self._seen_on: int | None = None

    @property
    def uri(self) -> str:
        """`file:` and the absolute path."""
        return f"file:{self._root}"

    def get(self, key: str, *, max_bytes: int = GET_MAX_BYTES) -> bytes:
        """See `Store.get`."""
        path = self._path(key)
        with self._mapped("read", key), path.open("rb") as source:
            size = os.fstat(source.fileno()).st_size
            if size > max_bytes:
                raise WrongSize(f"{self.uri}: {key} has {size} bytes, more than the {max_bytes} allowed here")
            return source.read()

    def get_to(self, key: str, path: Path) -> Digested:
        """See `Store.get_to`."""
        return save(self._chunks(key), path)

    def get_range(self, key: str, start: int, length: int) -> bytes:
        """See `Store.get_range`."""
        check_range(key, start, length)
        path = self._path(key)
        with self._mapped("read", key), path.open("rb") as source:
            source.seek(start)
            data = source.read(length)
            size = os.fstat(source.fileno()).st_size
        if start + length > size or len(data) != length:
            raise WrongSize(f"{self.uri}: {key} ends before byte {start + length}")
        return data

    def put(self, key: str, data: bytes | memoryview | Path, *, sha256: str | None = None) -> None:
        """See `Store.put`."""

        def commit(target: Path) -> None:
            temporary = _write_temporary(target.parent, pieces(data, sha256))
            _rename(temporary, target)

        self._write(key, commit)

    def put_if_absent(self, key: str, data: bytes) -> None:
        """See `Store.put_if_absent`."""

        def commit(target: Path) -> None:
            temporary = _write_temporary(target.parent, [data])
            try:
                os.link(temporary, target)
            except FileExistsError as error:
                if target.is_dir():
                    raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(target)) from error
                # The other writer may not have flushed the folder yet, and our caller will act on what it finds.
                _flush_folder(target.parent)
                raise PreconditionFailed(f"{self.uri}: {key} is there already") from error
            except OSError as error:
                if error.errno in _NO_LINKS:
                    raise StoreError(
                        f"cannot write {key} in {self.uri}: its file system has no hard links, which a store needs to"
                        " create an object once; choose another folder"
                    ) from error
                raise
            finally:
                temporary.unlink(missing_ok=True)
            _flush_folder(target.parent)

        self._write(key, commit)

    def replace_if_match(self, key: str, data: bytes, version: str) -> None:
        """See `Store.replace_if_match`.

        Raises:
            StoreUnavailable: another process holds this key's lock for over ten seconds.
        """
        self._check_version(key, version)

        def commit(target: Path) -> None:
            temporary = _write_temporary(target.parent, [data])
            try:
                with self._locked(key):
                    self._check_version(key, version)
                    _rename(temporary, target)
            finally:
                temporary.unlink(missing_ok=True)

        self._write(key, commit)

    def head(self, key: str) -> ObjectInfo | None:
        """See `Store.head`."""
        path = self._path(key)
        with self._mapped("look at", key):
            try:
                found = path.stat()
            except (FileNotFoundError, NotADirectoryError):
                self._check_there()
                return None
        return None if path.is_dir() else _info(key, found)

    def list(self, prefix: str) -> Iterator[ObjectInfo]:
        """See `Store.list`."""
        check_prefix(prefix)
        return self._walk(prefix)

    def list_folder(self, prefix: str) -> Folder:
        """See `Store.list_folder`."""
        check_prefix(prefix)
        objects, folders = [], []
        for entry in self._entries(prefix):
            if entry.is_dir(follow_symlinks=False):
                # An empty folder is no folder here: other kinds of stores don't know such a thing.
                if next(self._walk(_join(prefix, entry.name)), None) is not None:
                    folders.append(entry.name)
            elif (info := self.head(_join(prefix, entry.name))) is not None:
                objects.append(info)
        return Folder(tuple(objects), tuple(folders))

    def delete(self, key: str) -> None:
        """See `Store.delete`. Folders that become empty go too."""
        path = self._path(key)
        with self._mapped("delete", key):
            try:
                path.unlink()
                _flush_folder(path.parent)
            except (FileNotFoundError, NotADirectoryError, IsADirectoryError):
                self._check_there()
        for folder in path.parents:
            if folder == self._root:
                break
            try:
                folder.rmdir()
            except OSError:
                break

    def _path(self, key: str) -> Path:
        return self._root / check_key(key)

    def _walk(self, prefix: str) -> Iterator[ObjectInfo]:
        for entry in self._entries(prefix):
            key = _join(prefix, entry.name)
            if entry.is_dir(follow_symlinks=False):
                yield from self._walk(key)
            elif (info := self.head(key)) is not None:
                yield info

    def _entries(self, prefix: str) -> Iterator[os.DirEntry[str]]:
        with self._mapped("list", prefix):
            if not prefix:
                self._check_there()
            try:
                with os.scandir(self._root / prefix) as found:
                    yield from (entry for entry in found if is_segment(entry.name))
            except (FileNotFoundError, NotADirectoryError):
                self._check_there()

    def _chunks(self, key: str) -> Iterator[bytes]:
        path = self._path(key)
        with self._mapped("read", key):
            yield from read_chunks(path)

    def _check_version(self, key: str, version: str) -> None:
        found = self.head(key)
        if found is None or found.version != version:
            raise PreconditionFailed(f"{self.uri}: {key} has changed")

    def _write(self, key: str, commit: Callable[[Path], None]) -> None:
        """Commit into the key's folder. Made again when a concurrent `delete` has just removed it as empty."""
        target = self._path(key)
        with self._mapped("write", key):
            for left in reversed(range(_FOLDER_TRIES)):
                self._check_there()
                _make_folder(target.parent)
                try:
                    commit(target)
                except FileNotFoundError:
                    if left == 0 or target.parent.is_dir():
                        raise
                else:
                    return

    @contextmanager
    def _locked(self, key: str) -> Iterator[None]:
        """One holder at a time over threads, processes and (where the file system says so) machines.

        The lock falls when its holder dies. Its file stays: removing it would let two holders in.
        """
        folder = self._root / ".locks"
        _make_folder(folder)
        handle = os.open(
            folder / hashlib.sha256(key.encode()).hexdigest(), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666
        )
        try:
            deadline = time.monotonic() + LOCK_WAIT_S
            while True:
                try:
                    fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    break
                except BlockingIOError as error:
                    if time.monotonic() > deadline:
                        raise StoreUnavailable(f"{self.uri}: {key} is locked by another process") from error
                    _PACE.wait(_LOCK_POLL_S)
            yield
        finally:
            os.close(handle)

    @contextmanager
    def _mapped(self, action: str, key: str) -> Iterator[None]:
        try:
            yield
            if self._seen_on is None:
                self._check_there()
        except OSError as error:
            raise self._error(error, action, key) from error

    def _check_there(self) -> None:
        """Tell a store whose mount is away from one that has nothing: where it was seen, its folder stays.

        Raises:
            StoreUnavailable: its folder is gone, or is the empty one that its mount was laid over.
        """
        # before the look: another thread may make the folder meanwhile
        seen_on = self._seen_on
        try:
            device = _device(self._root)
        except FileNotFoundError:
            is_away = seen_on is not None
        else:
            # mounted again it may have another number, and has something in it
            is_away = seen_on not in (None, device) and next(self._root.iterdir(), None) is None
            if not is_away:
                self._seen_on = device
        if is_away:
            raise StoreUnavailable(f"{self.uri}: its folder is gone: is the disk or share mounted?")

    def _error(self, error: OSError, action: str, key: str) -> StoreError:
        what = f"cannot {action} {key or 'the store'} in {self.uri}: {error.strerror or error}"
        if error.errno == errno.ENOENT and action == "read":
            self._check_there()
            return ObjectMissing(f"{self.uri}: no object {key}")
        if error.errno in (errno.EISDIR, errno.ENOTDIR, errno.EEXIST):
            if action == "read":
                return ObjectMissing(f"{self.uri}: no object {key}")
            return StoreError(f"{what} (a name in its path is taken by a file, or by a folder)")
        if error.errno in _DENIED:
            return StoreDenied(f"{what}; give this user write access, or choose another store")
        if error.errno in FULL:
            return StoreError(f"{what}; free some space and resume")
        if error.errno in _LATER:
            return StoreUnavailable(what)
        return StoreError(what)


def _join(prefix: str, name: str) -> str:
    return f"{prefix}/{name}" if prefix else name


def _info(key: str, found: os.stat_result) -> ObjectInfo:
    version = f"{found.st_ino:x}-{found.st_mtime_ns:x}-{found.st_size:x}"
    return ObjectInfo(key, found.st_size, version, datetime.fromtimestamp(found.st_mtime, UTC))


def _device(folder: Path) -> int:
    return folder.stat().st_dev


def _make_folder(folder: Path) -> None:
    """Make a folder and those above it, each flushed into its parent."""
    missing = []
    while not folder.exists():
        missing.append(folder)
        folder = folder.parent
    for new in reversed(missing):
        new.mkdir(exist_ok=True)
        _flush_folder(new.parent)


def _write_temporary(folder: Path, chunks: Iterable[bytes | memoryview]) -> Path:
    """A new file with these bytes, flushed to disk. None is left after an error."""
    path = folder / f".tmp-{secrets.token_hex(12)}"
    handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o666)
    try:
        with os.fdopen(handle, "wb", buffering=0) as sink:
            for chunk in chunks:
                write_all(sink.fileno(), chunk)
            # File systems stamp with the tick of the kernel's clock, so that two writes could look the same.
            now_ns = time.time_ns()
            os.utime(sink.fileno(), ns=(now_ns, now_ns))
            os.fsync(sink.fileno())
    except BaseException:
        path.unlink(missing_ok=True)
        raise
    return path


def _rename(temporary: Path, target: Path) -> None:
    try:
        temporary.replace(target)
    except OSError:
        temporary.unlink(missing_ok=True)
        raise
    _flush_folder(target.parent)


def _flush_folder(folder: Path) -> None:
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
