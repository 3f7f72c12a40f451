"""The store contract on the wrapper that every opened store has: patience must not change what a store does."""

import uuid
from datetime import UTC, datetime

import pytest

from mst.store import open_store
from mst.testing.store import RawStore, StoreContract


class RawInner(RawStore):
    def __init__(self, inner):
        self._inner = inner

    def read(self, key):
        return self._inner.get(key) if self._inner.head(key) else None

    def write(self, key, data):
        self._inner._objects[key] = (data, 10**9 + len(self._inner._objects), datetime.now(UTC))

    def keys(self):
        return {info.key for info in self._inner.list("")}


class TestOpenedStore(StoreContract):
    @pytest.fixture
    def store(self):
        return open_store(f"memory:{uuid.uuid4().hex}")

    @pytest.fixture
    def raw(self, store):
        return RawInner(store._inner)
