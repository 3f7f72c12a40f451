"""Files out of packs: ranges of a pack, each file checked, nothing held but a few ranges."""

from __future__ import annotations

import hashlib
import heapq
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Executor, ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from mst.errors import CorruptFile, DigestMismatch, ObjectMissing
from mst.model.manifest import Pack, PackEntry
from mst.store.contract import Store
from mst.store.listing import Listing, read_pack_index
from mst.store.pack import Window, windows
from mst.store.streams import local_error
from mst.store.transfer import one_ahead

Wanted = Callable[[str], bool]
"""Whether the file with this path is to be read."""

LARGE_BYTES = 32 * 1024
"""Files of this size on average are written by the threads that read them."""
_NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC


def read_pack(
    store: Store, listing: Listing, pack: Pack, wanted: Wanted | None = None
) -> Iterator[tuple[PackEntry, memoryview]]:
    """The files of a listed pack with their bytes, checked. Memory: one range and the index.

    Raises:
        ObjectMissing: the index or the pack is gone; names the object.
        DigestMismatch: an index or a file has other bytes than were stored; names object and file.
        CorruptFile: the index says what it may not, or the pack is too short.
    """
    for window in windows(_index(store, listing, wanted, pack)):
        yield from _range(store, listing, pack, window)


def _index(store: Store, listing: Listing, wanted: Wanted | None, pack: Pack) -> Iterator[PackEntry]:
    """What of a pack is wanted; its index is read and its digest checked before this returns."""
    try:
        entries = read_pack_index(store, listing, pack)
    except ObjectMissing as error:
        raise _gone(store, listing.index_key(pack), pack) from error
    return entries if wanted is None else (entry for entry in entries if wanted(entry.path))


def _range(store: Store, listing: Listing, pack: Pack, window: Window) -> Iterator[tuple[PackEntry, memoryview]]:
    key = listing.pack_key(pack)
    try:
        return read_window(store, key, window)
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
        WrongSize: it is too short.
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


@dataclass(frozen=True, slots=True)
class Range:
    """Neighbouring files of a pack that are here.

    Attributes:
        pack: that they are of.
        files: each is checked when it is taken.
    """

    pack: Pack
    files: Iterator[tuple[PackEntry, memoryview]]


class Unpacker:
    """Writes the files of packs below a folder that nobody else writes to.

    One thread plans what is read and writes small files, others read, and write large ones. Threads that make small
    files at once hand the interpreter to each other at each call to the system, which costs more than the call; the
    digest and the writing of large ones leave the interpreter alone for long.

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
        # Paths relative to it need not be looked up from the root, which is a tenth of what a small file costs.
        self._root = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)

    def close(self) -> None:
        """Write nothing more."""
        os.close(self._root)

    def plan(self) -> Iterator[tuple[Pack, Window]]:
        """All that is to be read, packs of small files and of larger ones in step.

        The first keep the processor busy, the others the line.

        Raises:
            StoreError, DigestMismatch, CorruptFile: an index; see `read_pack`.
        """
        packs = self._listing.packs
        mean = _size(packs) / max(1, sum(pack.files for pack in packs))
        small = [pack for pack in packs if pack.size < mean * pack.files]
        large = [pack for pack in packs if pack.size >= mean * pack.files]
        with ThreadPoolExecutor(1, thread_name_prefix="mst-index") as pool:
            yield from _in_step([(self._ranges(pool, kind), _size(kind)) for kind in (small, large)])

    def _ranges(self, pool: Executor, packs: Sequence[Pack]) -> Iterator[tuple[Pack, Window]]:
        read = partial(_index, self._store, self._listing, self._wanted)
        for pack, entries in zip(packs, one_ahead(pool, read, packs), strict=True):
            for window in windows(entries):
                yield pack, window

    def read(self, pack: Pack, window: Window) -> Range | None:
        """Read a range, and write it too if its files are large; else it is to be given to `write`.

        Raises:
            CorruptFile, StoreError, DigestMismatch: see `write` and `read_pack`.
        """
        found = Range(pack, _range(self._store, self._listing, pack, window))
        if window.length < LARGE_BYTES * len(window.entries):
            return found
        self.write(found)
        return None

    def write(self, found: Range) -> None:
        """Write a range's files. Not flushed to disk.

        Raises:
            CorruptFile: a path is there already, or is both a file and a folder.
            StoreError: a file can't be written.
            DigestMismatch: a file has other bytes than were stored; names object and file.
        """
        last = ""
        path = ""
        try:
            for entry, content in found.files:
                path = entry.path
                folder = path[: max(path.rfind("/"), 0)]
                if folder != last:
                    self._make(folder)
                    last = folder
                self._write_new(path, content, 0o777 if entry.executable else 0o666)
        except (FileExistsError, IsADirectoryError, NotADirectoryError) as error:
            place = f"{self._store.uri}: {self._listing.index_key(found.pack)}"
            raise CorruptFile(f"{place}: {path} is listed twice, or is a file and a folder") from error
        except OSError as error:
            raise local_error("write", f"{self._folder}/{path}", error) from error

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


def _size(packs: Iterable[Pack]) -> int:
    return sum(pack.size for pack in packs)


def _in_step(streams: Sequence[tuple[Iterator[tuple[Pack, Window]], int]]) -> Iterator[tuple[Pack, Window]]:
    """Ranges of several streams, each with its bytes in all, so that all end together."""
    behind = [(0.0, number) for number in range(len(streams))]
    while behind:
        part, number = heapq.heappop(behind)
        stream, total = streams[number]
        for pack, window in stream:
            yield pack, window
            heapq.heappush(behind, (part + window.length / max(1, total), number))
            break


def _checked(store: Store, key: str, size: int, sha256: str, path: str) -> bytes:
    try:
        data = store.get(key)
    except ObjectMissing as error:
        raise ObjectMissing(f"{store.uri}: the object {key} ({path}) is listed but gone") from error
    found = hashlib.sha256(data).hexdigest()
    if found != sha256:
        wrong = f"{len(data)} bytes instead of {size}" if len(data) != size else f"SHA-256 {found}"
        raise DigestMismatch(f"{store.uri}: the object {key} is corrupt: it has {wrong}, {sha256} was stored ({path})")
    return data


def _gone(store: Store, key: str, pack: Pack) -> ObjectMissing:
    return ObjectMissing(f"{store.uri}: the object {key} ({pack.first} to {pack.last}) is listed but gone")
