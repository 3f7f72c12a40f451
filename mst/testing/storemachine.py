"""A rule-based comparison: step by step, a store does what the in-memory store does.

Subclass `StoreMachine`, make the store, and let hypothesis run `Subclass.TestCase`.
"""

from __future__ import annotations

import itertools
import shutil
import tempfile
from abc import abstractmethod
from collections.abc import Callable
from pathlib import Path
from typing import Any, ClassVar

from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, rule

from mst.errors import MstError
from mst.store.contract import Store
from mst.store.memory import MemoryStore

SEGMENTS = st.sampled_from(["a", "b", "a%20b", "m.1.json", "~c"])
KEYS = st.lists(SEGMENTS, min_size=1, max_size=3).map("/".join)
PREFIXES = st.one_of(st.just(""), KEYS)
CONTENTS = st.binary(max_size=40)

Version = tuple[str, str, str]


class StoreMachine(RuleBasedStateMachine):
    """Does the same to both stores; the outcomes must be of the same kind.

    Attributes:
        refuses_nesting: whether the store refuses a key that is the folder of another; else no such keys are made.
        tells_writes_apart: whether a write of the same bytes makes another version; else no bytes are written twice.
    """

    versions: Bundle[Version] = Bundle("versions")
    refuses_nesting: ClassVar[bool] = True
    tells_writes_apart: ClassVar[bool] = True

    def __init__(self) -> None:
        super().__init__()
        self.folder = Path(tempfile.mkdtemp())
        self._writes = itertools.count()
        self.stores: tuple[Store, Store] = (MemoryStore("model"), self.make())

    @abstractmethod
    def make(self) -> Store:
        """An empty store. `self.folder` is an empty folder."""

    def teardown(self) -> None:
        """Remove what was made."""
        shutil.rmtree(self.folder)

    def _key(self, key: str) -> str:
        return key if self.refuses_nesting else f"f/{key.replace('/', '-')}"

    def _prefix(self, prefix: str) -> str:
        return prefix if self.refuses_nesting else ("f" if prefix else "")

    def _data(self, data: bytes) -> bytes:
        return data if self.tells_writes_apart else b"%d %s" % (next(self._writes), data)

    def _both(self, call: Callable[[Store, str], Any], versions: tuple[str, str] = ("", "")) -> None:
        outcomes = []
        for store, version in zip(self.stores, versions, strict=True):
            try:
                outcomes.append(("ok", call(store, version)))
            except MstError as error:
                outcomes.append((type(error).__name__, None))
        assert outcomes[0] == outcomes[1]

    @rule(key=KEYS, data=CONTENTS)
    def put(self, key: str, data: bytes) -> None:
        """Write."""
        key, data = self._key(key), self._data(data)
        self._both(lambda store, _: store.put(key, data))

    @rule(key=KEYS, data=CONTENTS)
    def put_if_absent(self, key: str, data: bytes) -> None:
        """Create."""
        key, data = self._key(key), self._data(data)
        self._both(lambda store, _: store.put_if_absent(key, data))

    @rule(key=KEYS)
    def get(self, key: str) -> None:
        """Read."""
        self._both(lambda store, _: store.get(self._key(key)))

    @rule(key=KEYS)
    def get_to(self, key: str) -> None:
        """Read into a file."""
        target = self.folder / "copy"
        self._both(lambda store, _: (store.get_to(self._key(key), target), target.read_bytes()))

    @rule(key=KEYS, start=st.integers(-1, 41), length=st.integers(-1, 41))
    def get_range(self, key: str, start: int, length: int) -> None:
        """Read a part."""
        self._both(lambda store, _: store.get_range(self._key(key), start, length))

    @rule(key=KEYS)
    def delete(self, key: str) -> None:
        """Remove."""
        self._both(lambda store, _: store.delete(self._key(key)))

    @rule(target=versions, key=KEYS)
    def head(self, key: str) -> Version:
        """Look at; the versions are used later."""
        found = [store.head(self._key(key)) for store in self.stores]
        sizes = [None if info is None else info.size for info in found]
        assert sizes[0] == sizes[1]
        model, real = ("none" if info is None else info.version for info in found)
        return self._key(key), model, real

    @rule(version=versions, data=CONTENTS)
    def replace_if_match(self, version: Version, data: bytes) -> None:
        """Replace what had a version that was seen before."""
        key, model, real = version
        data = self._data(data)
        self._both(lambda store, own: store.replace_if_match(key, data, own), (model, real))

    @rule(prefix=PREFIXES)
    def list_folder(self, prefix: str) -> None:
        """List one level."""
        model, real = (store.list_folder(self._prefix(prefix)) for store in self.stores)
        assert set(model.folders) == set(real.folders)
        assert {info.key for info in model.objects} == {info.key for info in real.objects}

    @rule(prefix=PREFIXES)
    def list(self, prefix: str) -> None:
        """List everything below."""
        model, real = ({(info.key, info.size) for info in store.list(self._prefix(prefix))} for store in self.stores)
        assert model == real
