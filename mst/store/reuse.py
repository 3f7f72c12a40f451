"""What a push need not send: contents that the run's present manifest, or its source's, lists already.

Kept in a private temporary database that spills to disk, so that memory does not grow with the number of files.
"""

from __future__ import annotations

import logging
import sqlite3
import threading
from collections.abc import Iterable, Iterator
from datetime import datetime

from mst.errors import CorruptFile, DigestMismatch, ObjectMissing
from mst.model.manifest import Pack, PackEntry
from mst.store.age import TRUSTED_AGE, store_now
from mst.store.contract import ObjectInfo, Store
from mst.store.layout import RunKeys
from mst.store.listing import Listing, read_pack_index
from mst.store.pack import INDEX_MAX_BYTES, PackIndex, index_line

_LOG = logging.getLogger(__name__)
_TABLES = """
CREATE TABLE blobs (sha256 TEXT PRIMARY KEY, size INTEGER, key TEXT) WITHOUT ROWID;
CREATE TABLE slots (sha256 TEXT, path TEXT, pack INTEGER, start INTEGER, size INTEGER,
    PRIMARY KEY (sha256, path)) WITHOUT ROWID;
CREATE TABLE used (pack INTEGER, start INTEGER, path TEXT, size INTEGER, sha256 TEXT, program INTEGER,
    PRIMARY KEY (pack, start, path)) WITHOUT ROWID;
"""
_SLOT = "SELECT pack, start FROM slots WHERE sha256 = ? AND size = ?"


class Present:
    """Which objects are there, and which may be relied on although nothing lists them yet.

    Looks at each folder once, when something in it is asked for, and remembers what was there. One that is not
    trusting never relies on what nothing lists.
    """

    def __init__(self, store: Store, keys: RunKeys, *, trusting: bool = True) -> None:
        self._store = store
        self._trusting = trusting
        self._keys = keys
        self._folders: dict[str, dict[str, ObjectInfo]] = {}
        self._now: datetime | None = None
        self._lock = threading.Lock()

    def find(self, key: str) -> ObjectInfo | None:
        """An object, None when it is not there."""
        folder = key.rpartition("/")[0]
        with self._lock:
            if folder not in self._folders:
                self._folders[folder] = {info.key: info for info in self._store.list(folder)}
            return self._folders[folder].get(key)

    def distrust(self, key: str) -> None:
        """Take an object that is there, and wrong, for one that is not."""
        self.find(key)
        with self._lock:
            self._folders[key.rpartition("/")[0]].pop(key, None)

    def missing(self, keys: Iterable[str]) -> list[str]:
        """Those that are not there, in order."""
        return [key for key in sorted(keys) if self.find(key) is None]

    def is_young(self, key: str, size: int) -> bool:
        """Whether an object is there with this size and so young that no collection of garbage is near."""
        found = self.find(key) if self._trusting else None
        if found is None or found.size != size:
            return False
        with self._lock:
            if self._now is None:
                self._now = store_now(self._store, self._keys.eval_name)
            return self._now - found.modified < TRUSTED_AGE


class Reuse:
    """Contents that are there, and which of them the new manifest uses. For one thread, but for `blob`."""

    def __init__(self) -> None:
        # An empty name is a database in a temporary file that the library removes itself.
        self._database = sqlite3.connect("", check_same_thread=False)
        self._lock = threading.Lock()
        self._database.executescript(_TABLES)
        self._packs: list[tuple[Listing, Pack]] = []
        self._room: list[int] = []
        self._has_blobs = False

    def close(self) -> None:
        """Forget everything."""
        self._database.close()

    def learn(self, store: Store, listing: Listing, present: Present) -> None:
        """Read what a manifest lists: one request for each of its packs.

        What is not there any more, or can't be read, is passed over with a warning, so that a push mends it.
        """
        files = [file for file in listing.files if present.find(listing.file_key(file)) is not None]
        self._has_blobs |= bool(files)
        rows = ((file.sha256, file.size, listing.file_key(file)) for file in files)
        self._database.executemany("INSERT OR IGNORE INTO blobs VALUES (?, ?, ?)", rows)
        for pack in listing.packs:
            if present.find(listing.pack_key(pack)) is not None:
                self._learn_pack(store, listing, pack, present)

    def _learn_pack(self, store: Store, listing: Listing, pack: Pack, present: Present) -> None:
        number = len(self._packs)
        self._packs.append((listing, pack))
        # A line grows by an eighth at most, when its file becomes a program.
        self._room.append(INDEX_MAX_BYTES - pack.index_size * 8 // 7)
        insert = "INSERT OR IGNORE INTO slots VALUES (?, ?, ?, ?, ?)"
        try:
            for entry in read_pack_index(store, listing, pack):
                self._database.execute(insert, (entry.sha256, entry.path, number, entry.offset, entry.size))
        except (ObjectMissing, DigestMismatch, CorruptFile) as error:
            _LOG.warning("a pack is not used again: %s", error)
            present.distrust(listing.index_key(pack))
            self._database.execute("DELETE FROM slots WHERE pack = ?", (number,))

    def blob(self, sha256: str, size: int) -> str | None:
        """The key of an object with this content, None if none is known."""
        if not self._has_blobs:
            return None
        query = "SELECT key FROM blobs WHERE sha256 = ? AND size = ?"
        with self._lock:
            found = self._database.execute(query, (sha256, size)).fetchone()
        return None if found is None else str(found[0])

    def use(self, path: str, sha256: str, size: int, *, executable: bool) -> bool:
        """Take a file from a known pack. Whether one has it."""
        if not self._packs:
            return False
        with self._lock:
            return self._use(path, sha256, size, executable)

    def _use(self, path: str, sha256: str, size: int, executable: bool) -> bool:
        # Its own place first, so that an unchanged run makes unchanged indexes.
        found = self._database.execute(f"{_SLOT} AND path = ?", (sha256, size, path)).fetchone()
        if found is None:
            found = self._database.execute(f"{_SLOT} LIMIT 1", (sha256, size)).fetchone()
            if found is None or not self._has_room(found, path, sha256, size, executable):
                return False
        row = (*found, path, size, sha256, executable)
        self._database.execute("INSERT INTO used VALUES (?, ?, ?, ?, ?, ?)", row)
        return True

    def _has_room(self, found: tuple[int, int], path: str, sha256: str, size: int, executable: bool) -> bool:
        """Whether a pack's index stays one that readers accept with a line that it did not have: takes the room.

        Thousands of files may share a content, an empty one for instance, of which an earlier push knew a single one.
        """
        pack, start = found
        self._room[pack] -= len(index_line(path, size, sha256, start, executable))
        return self._room[pack] >= 0

    def indexes(self) -> Iterator[tuple[Listing, Pack, bytes, Pack]]:
        """For each pack of which something is used: whose it is, how it was listed, its new index, and what it says."""
        for number, (listing, before) in enumerate(self._packs):
            index, files = PackIndex(before.sha256, before.size), 0
            for entry in self._used(number):
                index.add(entry)
                files += 1
            if files:
                data, pack = index.finish(files=files)
                yield listing, before, data, pack

    def _used(self, number: int) -> Iterator[PackEntry]:
        query = "SELECT path, size, sha256, start, program FROM used WHERE pack = ? ORDER BY start, path"
        for path, size, sha256, start, program in self._database.execute(query, (number,)):
            yield PackEntry(path=path, size=size, sha256=sha256, offset=start, length=size, executable=bool(program))
