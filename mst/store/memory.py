"""`memory:NAME`: a store in this process, for tests and as the model that the others are compared with."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

from mst.errors import ObjectMissing, PreconditionFailed, StoreError, WrongSize
from mst.model.keys import is_object_key
from mst.store.contract import GET_MAX_BYTES, Digested, Folder, ObjectInfo, check_key, check_prefix, check_range
from mst.store.streams import pieces, save


class MemoryStore:
    """Keeps the whole contract of `Store`, except that nothing outlives the process."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._lock = threading.Lock()
        self._objects: dict[str, tuple[bytes, int, datetime]] = {}
        self._writes = 0

    @property
    def uri(self) -> str:
        """`memory:NAME`."""
        return f"memory:{self._name}"

    def get(self, key: str, *, max_bytes: int = GET_MAX_BYTES) -> bytes:
        """See `Store.get`."""
        data = self._read(key)
        if len(data) > max_bytes:
            raise WrongSize(f"{self.uri}: {key} has {len(data)} bytes, more than the {max_bytes} allowed here")
        return data

    def get_to(self, key: str, path: Path) -> Digested:
        """See `Store.get_to`."""
        return save([self._read(key)], path)

    def get_range(self, key: str, start: int, length: int) -> bytes:
        """See `Store.get_range`."""
        check_range(key, start, length)
        data = self._read(key)
        if start + length > len(data):
            raise WrongSize(f"{self.uri}: {key} ends before byte {start + length}")
        return data[start : start + length]

    def put(self, key: str, data: bytes | memoryview | Path, *, sha256: str | None = None) -> None:
        """See `Store.put`."""
        content = b"".join(pieces(data, sha256))
        with self._lock:
            self._write(key, content)

    def put_if_absent(self, key: str, data: bytes) -> None:
        """See `Store.put_if_absent`."""
        with self._lock:
            if check_key(key) in self._objects:
                raise PreconditionFailed(f"{self.uri}: {key} is there already")
            self._write(key, data)

    def replace_if_match(self, key: str, data: bytes, version: str) -> None:
        """See `Store.replace_if_match`."""
        with self._lock:
            found = self._objects.get(check_key(key))
            if found is None or str(found[1]) != version:
                raise PreconditionFailed(f"{self.uri}: {key} has changed")
            self._write(key, data)

    def head(self, key: str) -> ObjectInfo | None:
        """See `Store.head`."""
        with self._lock:
            found = self._objects.get(check_key(key))
        return None if found is None else _info(key, found)

    def list(self, prefix: str) -> Iterator[ObjectInfo]:
        """See `Store.list`."""
        start = f"{check_prefix(prefix)}/" if prefix else ""
        with self._lock:
            found = [
                _info(key, entry)
                for key, entry in self._objects.items()
                if key.startswith(start) and is_object_key(key)
            ]
        return iter(found)

    def list_folder(self, prefix: str) -> Folder:
        """See `Store.list_folder`."""
        skip = len(prefix) + 1 if prefix else 0
        objects: list[ObjectInfo] = []
        folders: dict[str, None] = {}
        for info in self.list(prefix):
            name, slash, _ = info.key[skip:].partition("/")
            if slash:
                folders[name] = None
            else:
                objects.append(info)
        return Folder(tuple(objects), tuple(folders))

    def delete(self, key: str) -> None:
        """See `Store.delete`."""
        with self._lock:
            self._objects.pop(check_key(key), None)

    def _read(self, key: str) -> bytes:
        with self._lock:
            found = self._objects.get(check_key(key))
        if found is None:
            raise ObjectMissing(f"{self.uri}: no object {key}")
        return found[0]

    def _write(self, key: str, data: bytes) -> None:
        """With the lock held."""
        parts = check_key(key).split("/")
        above = {"/".join(parts[:count]) for count in range(1, len(parts))}
        if above & self._objects.keys() or any(other.startswith(f"{key}/") for other in self._objects):
            raise StoreError(f"{self.uri}: {key} would be a folder and an object at once")
        self._writes += 1
        self._objects[key] = (data, self._writes, datetime.now(UTC))


def _info(key: str, entry: tuple[bytes, int, datetime]) -> ObjectInfo:
    data, number, modified = entry
    return ObjectInfo(key, len(data), str(number), modified)
