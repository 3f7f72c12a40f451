"""The file store does, step by step, what the in-memory store does."""

from hypothesis import settings
from hypothesis.stateful import invariant

from mst.store.file import FileStore
from mst.testing.storemachine import StoreMachine


class FileAgainstMemory(StoreMachine):
    def make(self):
        return FileStore(self.folder / "store")

    @invariant()
    def nothing_is_left_over(self):
        assert list(self.folder.rglob(".tmp-*")) == []


TestFileAgainstMemory = FileAgainstMemory.TestCase
TestFileAgainstMemory.settings = settings(max_examples=60, stateful_step_count=30, deadline=None)
