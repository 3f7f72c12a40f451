"""Files out of packs: ranges of a pack, each file checked, nothing held but one range."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

from mst.errors import CorruptFile, DigestMismatch, ObjectMissing, StoreError
from mst.model.manifest import Pack, PackEntry
from mst.store.contract import Store
from mst.store.listing import Listing, read_pack_index
from mst.store.pack import Window, windows

Wanted = Callable[[str], bool]
"""Whether the file with this path is to be read."""


def read_pack(
    store: Store, listing: Listing, pack: Pack, wanted: Wanted | None = None
) -> Iterator[tuple[PackEntry, memoryview]]:
    """The files of a listed pack with their bytes, checked. Memory: one range and the index.

    Raises:
        StoreError: the index or the pack is gone, or the pack is too short; names the object.
        DigestMismatch: an index or a file has other bytes than were stored; names object and file.
        CorruptFile: the index says what it may not.
    """
    key = listing.pack_key(pack)
    try:
        entries: Iterable[PackEntry] = read_pack_index(store, listing, pack)
    except ObjectMissing as error:
        raise _gone(store, listing.index_key(pack), pack) from error
    if wanted is not None:
        entries = (entry for entry in entries if wanted(entry.path))
    try:
        for window in windows(entries):
            yield from read_window(store, key, window)
    except ObjectMissing as error:
        raise _gone(store, key, pack) from error


def _refuse(error: DigestMismatch) -> None:
    raise error


def read_window(
    store: Store, key: str, window: Window, wrong: Callable[[DigestMismatch], None] = _refuse
) -> Iterator[tuple[PackEntry, memoryview]]:
    """The files of one range of a pack, checked.

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
    data = memoryview(store.get_range(key, window.start, window.length))
    for entry in window.entries:
        start = entry.offset - window.start
        content = data[start : start + entry.length]
        found = hashlib.sha256(content).hexdigest()
        if found == entry.sha256:
            yield entry, content
            continue
        wrong(
            DigestMismatch(
                f"{store.uri}: the object {key} is corrupt: bytes {entry.offset} to {entry.offset + entry.length}"
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


def unpack(store: Store, listing: Listing, pack: Pack, folder: Path, wanted: Wanted | None = None) -> None:
    """Write the files of a pack below a folder that nobody else writes to. Not flushed to disk.

    Raises:
        CorruptFile: a path is there already, or is both a file and a folder.
        StoreError: a file can't be written; or see `read_pack`.
    """
    root = str(folder)
    for entry, content in read_pack(store, listing, pack, wanted):
        path = f"{root}/{entry.path}"
        try:
            write_new(path, content, executable=entry.executable)
        except (FileExistsError, IsADirectoryError, NotADirectoryError) as error:
            place = f"{store.uri}: {listing.index_key(pack)}"
            raise CorruptFile(f"{place}: {entry.path} is listed twice, or is a file and a folder") from error
        except OSError as error:
            raise StoreError(
                f"cannot write {path}: {error.strerror or error}; free some space or fetch elsewhere"
            ) from error
        # It would keep its whole range in memory while the next one comes.
        del content


def write_new(path: str, content: bytes | memoryview, *, executable: bool) -> None:
    """Make a file, and its folder if that is missing.

    Raises:
        OSError: as the system says.
    """
    flags, mode = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o777 if executable else 0o666
    try:
        handle = os.open(path, flags, mode)
    except FileNotFoundError:
        # Files come folder by folder, so most find theirs.
        os.makedirs(os.path.dirname(path), exist_ok=True)  # noqa: PTH103, PTH120 - plain strings, once per file
        handle = os.open(path, flags, mode)
    try:
        done = os.write(handle, content)
        while done < len(content):
            done += os.write(handle, memoryview(content)[done:])
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
