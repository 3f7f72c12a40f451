"""The store contract on the in-memory store."""

from datetime import UTC, datetime

import pytest

from mst.store.memory import MemoryStore
from mst.testing.store import RawStore, StoreContract


class RawMemory(RawStore):
    def __init__(self, store):
        self._objects = store._objects

    def read(self, key):
        found = self._objects.get(key)
        return None if found is None else found[0]

    def write(self, key, data):
        self._objects[key] = (data, 10**9 + len(self._objects), datetime.now(UTC))

    def keys(self):
        return set(self._objects)


class TestMemoryStore(StoreContract):
    @pytest.fixture
    def store(self):
        return MemoryStore("contract")

    @pytest.fixture
    def raw(self, store):
        return RawMemory(store)
