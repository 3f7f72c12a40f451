"""The file store does, step by step, what the in-memory store does."""

import shutil
import tempfile
from pathlib import Path

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, invariant, rule

from mst.errors import MstError
from mst.store.file import FileStore
from mst.store.memory import MemoryStore

SEGMENTS = st.sampled_from(["a", "b", "a%20b", "m.1.json", "~c"])
KEYS = st.lists(SEGMENTS, min_size=1, max_size=3).map("/".join)
PREFIXES = st.one_of(st.just(""), KEYS)
CONTENTS = st.binary(max_size=40)


class FileAgainstMemory(RuleBasedStateMachine):
    versions = Bundle("versions")

    def __init__(self):
        super().__init__()
        self.folder = Path(tempfile.mkdtemp())
        self.stores = (MemoryStore("model"), FileStore(self.folder / "store"))

    def teardown(self):
        shutil.rmtree(self.folder)

    def both(self, call, *, versions=(None, None)):
        """Do the same on both; the outcomes must be of the same kind."""
        outcomes = []
        for store, version in zip(self.stores, versions, strict=True):
            try:
                outcomes.append(("ok", call(store, version)))
            except MstError as error:
                outcomes.append((type(error).__name__, None))
        model, real = outcomes
        assert model == real
        return model

    @rule(key=KEYS, data=CONTENTS)
    def put(self, key, data):
        self.both(lambda store, _: store.put(key, data))

    @rule(key=KEYS, data=CONTENTS)
    def put_if_absent(self, key, data):
        self.both(lambda store, _: store.put_if_absent(key, data))

    @rule(key=KEYS)
    def get(self, key):
        self.both(lambda store, _: store.get(key))

    @rule(key=KEYS)
    def get_to(self, key):
        target = self.folder / "copy"
        self.both(lambda store, _: (store.get_to(key, target), target.read_bytes()))

    @rule(key=KEYS, start=st.integers(-1, 41), length=st.integers(-1, 41))
    def get_range(self, key, start, length):
        self.both(lambda store, _: store.get_range(key, start, length))

    @rule(key=KEYS)
    def delete(self, key):
        self.both(lambda store, _: store.delete(key))

    @rule(target=versions, key=KEYS)
    def head(self, key):
        found = [store.head(key) for store in self.stores]
        sizes = [None if info is None else info.size for info in found]
        assert sizes[0] == sizes[1]
        return (key, *("none" if info is None else info.version for info in found))

    @rule(version=versions, data=CONTENTS)
    def replace_if_match(self, version, data):
        key, *pair = version
        self.both(lambda store, own: store.replace_if_match(key, data, own), versions=pair)

    @rule(prefix=PREFIXES)
    def list_folder(self, prefix):
        model, real = (store.list_folder(prefix) for store in self.stores)
        assert set(model.folders) == set(real.folders)
        assert {info.key for info in model.objects} == {info.key for info in real.objects}

    @rule(prefix=PREFIXES)
    def list(self, prefix):
        model, real = ({(info.key, info.size) for info in store.list(prefix)} for store in self.stores)
        assert model == real

    @invariant()
    def nothing_is_left_over(self):
        leftovers = list(self.folder.rglob(".tmp-*"))
        assert leftovers == []


TestFileAgainstMemory = FileAgainstMemory.TestCase
TestFileAgainstMemory.settings = settings(max_examples=60, stateful_step_count=30, deadline=None)
