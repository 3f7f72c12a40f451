"""The store contract on a folder of the local disk."""

import pytest

from mst.store.file import FileStore
from mst.testing.store import RawStore, StoreContract


class RawFolder(RawStore):
    def __init__(self, root):
        self._root = root

    def read(self, key):
        path = self._root / key
        return path.read_bytes() if path.is_file() else None

    def write(self, key, data):
        path = self._root / key
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)

    def keys(self):
        files = (path.relative_to(self._root) for path in self._root.rglob("*") if path.is_file())
        return {path.as_posix() for path in files if path.parts[0] != ".locks"}


class TestFileStore(StoreContract):
    @pytest.fixture
    def root(self, tmp_path):
        return tmp_path / "store"

    @pytest.fixture
    def store(self, root):
        return FileStore(root)

    @pytest.fixture
    def raw(self, root):
        return RawFolder(root)

    def another(self, store):
        return FileStore(store._root)

    def test_a_key_may_not_be_the_folder_of_another(self, store, raw):
        store.put("a/b", b"x")
        for write in (store.put, store.put_if_absent):
            with pytest.raises(Exception, match="taken by"):
                write("a/b/c", b"x")
            with pytest.raises(Exception, match="taken by"):
                write("a", b"x")
        assert raw.keys() == {"a/b"}
