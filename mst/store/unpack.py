"""Files out of packs: ranges of a pack, each file checked, nothing held but one range."""

from __future__ import annotations

import hashlib
import os
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import nullcontext
from pathlib import Path

from mst.errors import CorruptFile, DigestMismatch, ObjectMissing, StoreError
from mst.model.manifest import Pack, PackEntry
from mst.store.contract import Store
from mst.store.listing import Listing, read_pack_index
from mst.store.pack import Window, windows

Wanted = Callable[[str], bool]
"""Whether the file with this path is to be read."""

LARGE_BYTES = 32 * 1024
"""Files of this size on average are written by several threads at once."""
_NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC


def read_pack(
    store: Store, listing: Listing, pack: Pack, wanted: Wanted | None = None
) -> Iterator[tuple[PackEntry, memoryview]]:
    """The files of a listed pack with their bytes, checked. Memory: one range and the index.

    Raises:
        StoreError: the index or the pack is gone, or the pack is too short; names the object.
        DigestMismatch: an index or a file has other bytes than were stored; names object and file.
        CorruptFile: the index says what it may not.
    """
    for _, files in _read_ranges(store, listing, pack, wanted):
        yield from files


def _read_ranges(
    store: Store, listing: Listing, pack: Pack, wanted: Wanted | None
) -> Iterator[tuple[Window, Iterator[tuple[PackEntry, memoryview]]]]:
    """`read_pack` range by range: each is here when it is given, and its files are checked as they are taken."""
    key = listing.pack_key(pack)
    try:
        entries: Iterable[PackEntry] = read_pack_index(store, listing, pack)
    except ObjectMissing as error:
        raise _gone(store, listing.index_key(pack), pack) from error
    if wanted is not None:
        entries = (entry for entry in entries if wanted(entry.path))
    try:
        for window in windows(entries):
            yield window, read_window(store, key, window)
    except ObjectMissing as error:
        raise _gone(store, key, pack) from error


def _refuse(error: DigestMismatch) -> None:
    raise error


def read_window(
    store: Store, key: str, window: Window, wrong: Callable[[DigestMismatch], None] = _refuse
) -> Iterator[tuple[PackEntry, memoryview]]:
    """The files of one range of a pack, which is read at once; each is checked when it is taken.

    Args:
        store: where the pack is.
        key: of the pack.
        window: the range.
        wrong: told of a file that has other bytes than were stored, which is then passed over; raises it by default.

    Raises:
        ObjectMissing: the pack is gone.
        StoreError: it is too short.
        DigestMismatch: see `wrong`; names object and file.
    """
    data = store.get_range(key, window.start, window.length)
    return _checked_files(f"{store.uri}: the object {key}", window, data, wrong)


def _checked_files(
    place: str, window: Window, data: bytes | memoryview, wrong: Callable[[DigestMismatch], None]
) -> Iterator[tuple[PackEntry, memoryview]]:
    view, sha256, base = memoryview(data), hashlib.sha256, window.start
    for entry in window.entries:
        start = entry.offset - base
        content = view[start : start + entry.length]
        found = sha256(content).hexdigest()
        if found == entry.sha256:
            yield entry, content
            continue
        wrong(
            DigestMismatch(
                f"{place} is corrupt: bytes {entry.offset} to {entry.offset + entry.length}"
                f" have SHA-256 {found}, {entry.sha256} was stored ({entry.path})"
            )
        )


def read_file(store: Store, listing: Listing, path: str) -> bytes | None:
    """One small file of a run, without the others: an index or two, then one range. None when it is not listed.

    Raises:
        StoreError, DigestMismatch, CorruptFile: see `read_pack`.
    """
    for file in listing.files:
        if file.path == path:
            return _checked(store, listing.file_key(file), file.size, file.sha256, path)
    for pack in listing.packs:
        if pack.first <= path <= pack.last:
            for _, content in read_pack(store, listing, pack, lambda name: name == path):
                return bytes(content)
    return None


class Unpacker:
    """Writes the files of packs below a folder that nobody else writes to. Several threads may share one.

    Args:
        store: where from.
        listing: that lists the packs.
        folder: is there.
        wanted: narrows it to some paths; all files by default.
    """

    def __init__(self, store: Store, listing: Listing, folder: Path, wanted: Wanted | None = None) -> None:
        self._store = store
        self._listing = listing
        self._folder = folder
        self._wanted = wanted
        self._turn = threading.Lock()
        # Paths relative to it need not be looked up from the root, which is a tenth of what a small file costs.
        self._root = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)

    def close(self) -> None:
        """Write nothing more."""
        os.close(self._root)

    def unpack(self, pack: Pack) -> None:
        """Write a pack's files. Not flushed to disk.

        Raises:
            CorruptFile: a path is there already, or is both a file and a folder.
            StoreError: a file can't be written; or see `read_pack`.
        """
        for window, files in _read_ranges(self._store, self._listing, pack, self._wanted):
            # Threads that make small files at once hand the interpreter to each other at each call to the system,
            # which costs more than the call: one writes while the others read the store. Large ones are another
            # matter, since their digest and their writing leave the interpreter alone for long.
            small = window.length < LARGE_BYTES * len(window.entries)
            with self._turn if small else nullcontext():
                self._write(pack, files)

    def _write(self, pack: Pack, files: Iterator[tuple[PackEntry, memoryview]]) -> None:
        last = ""
        path = ""
        try:
            for entry, content in files:
                path = entry.path
                folder = path[: max(path.rfind("/"), 0)]
                if folder != last:
                    self._make(folder)
                    last = folder
                self._write_new(path, content, 0o777 if entry.executable else 0o666)
        except (FileExistsError, IsADirectoryError, NotADirectoryError) as error:
            place = f"{self._store.uri}: {self._listing.index_key(pack)}"
            raise CorruptFile(f"{place}: {path} is listed twice, or is a file and a folder") from error
        except OSError as error:
            place = f"{self._folder}/{path}"
            raise StoreError(
                f"cannot write {place}: {error.strerror or error}; free some space or fetch elsewhere"
            ) from error

    def _make(self, folder: str) -> None:
        if not folder:
            return
        try:
            os.mkdir(folder, dir_fd=self._root)
        except FileExistsError:
            return
        except FileNotFoundError:
            if "/" not in folder:
                raise
            self._make(folder[: folder.rfind("/")])
            self._make(folder)

    def _write_new(self, path: str, content: memoryview, mode: int) -> None:
        handle = os.open(path, _NEW, mode, dir_fd=self._root)
        try:
            done = os.write(handle, content)
            while done < len(content):
                done += os.write(handle, content[done:])
        finally:
            os.close(handle)


def _checked(store: Store, key: str, size: int, sha256: str, path: str) -> bytes:
    try:
        data = store.get(key)
    except ObjectMissing as error:
        raise StoreError(f"{store.uri}: the object {key} ({path}) is listed but gone") from error
    found = hashlib.sha256(data).hexdigest()
    if found != sha256:
        wrong = f"{len(data)} bytes instead of {size}" if len(data) != size else f"SHA-256 {found}"
        raise DigestMismatch(f"{store.uri}: the object {key} is corrupt: it has {wrong}, {sha256} was stored ({path})")
    return data


def _gone(store: Store, key: str, pack: Pack) -> StoreError:
    return StoreError(f"{store.uri}: the object {key} ({pack.first} to {pack.last}) is listed but gone")
