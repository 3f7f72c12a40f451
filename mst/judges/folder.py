"""The private folder of one grader call: placed files, copies of exports, a home; gone when the call is over."""

from __future__ import annotations

import re
import sys
import tempfile
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

from mst.config.files import FileSource, place
from mst.errors import GraderError
from mst.model.base import FileRef
from mst.process.environment import clean_environment, make_home
from mst.process.finishing import in_thread
from mst.process.removal import remove_tree
from mst.sandboxes.contract import Enclosure, Folders, Sandbox
from mst.sandboxes.none import OpenEnclosure

_PLACEHOLDER = re.compile(r"\{\{\s*(\w+)\s*\}\}")


class CallFolder:
    """A folder of its own for one call, mode 0700.

    Attributes:
        root: what everything of the call lies in; removed after it.
        files: where a grader's own files are placed.
    """

    def __init__(self, root: Path) -> None:
        self.root = root
        self.files = root / "files"
        self.home = root / "home"

    async def place(self, files: Iterable[FileRef], source: FileSource, into: str) -> Path:
        """Copy files by digest below a subfolder, in a thread, since a source may fetch them. Returns it.

        Raises:
            ObjectMissing, DigestMismatch: see `mst.config.files.place`.
        """
        target = self.root / into
        listed = list(files)
        target.mkdir(parents=True, exist_ok=True)
        if listed:
            await in_thread(place, listed, source, target)
        return target

    def environment(self, declared: Mapping[str, str]) -> dict[str, str]:
        """An environment from nothing, with a private home and what is declared."""
        return clean_environment(make_home(self.home), declared)

    @asynccontextmanager
    async def enclosed(self, sandbox: Sandbox | None, workspace: Path | None = None) -> AsyncIterator[Enclosure]:
        """What runs programs on this folder: the sandbox where there is one, else as this user.

        Raises:
            GraderError: the sandbox is not to be had on this machine.
        """
        folders = Folders(workspace=workspace, scratch=self.root)
        if sandbox is not None and (faults := sandbox.faults()):
            raise GraderError("; ".join(faults))
        inside = OpenEnclosure(folders) if sandbox is None else sandbox.enter(folders)
        try:
            yield inside
        finally:
            await inside.close()

    def neutral(self, value: Any) -> Any:
        """A JSON-like value in whose texts this folder's path is cut off, so that results are equal everywhere."""
        if isinstance(value, str):
            return self._neutral_text(value)
        if isinstance(value, dict):
            return {key: self.neutral(item) for key, item in value.items()}
        if isinstance(value, list):
            return [self.neutral(item) for item in value]
        return value

    def _neutral_text(self, text: str) -> str:
        for root in {str(self.root), str(self.root.resolve())}:
            text = text.replace(f"{root}/", "").replace(root, ".")
        return text


@asynccontextmanager
async def call_folder(scratch: Path) -> AsyncIterator[CallFolder]:
    """A new `CallFolder` below a scratch folder, removed with everything in it at the end, also on cancellation."""
    scratch.mkdir(parents=True, exist_ok=True)  # noqa: ASYNC240 - as quick as the mkdtemp that follows
    root = Path(tempfile.mkdtemp(prefix="call-", dir=scratch))
    try:
        yield CallFolder(root)
    finally:
        # Not awaited in a thread: a cancelled task would leave before its folder is gone.
        with suppress(OSError):
            remove_tree(root)


def fill(argv: Sequence[str], values: Mapping[str, str]) -> list[str]:
    """Fill in `{{name}}` per argument, never through a shell; `{{python}}` is this interpreter. Other braces stay."""
    known = {"python": sys.executable, **values}
    return [_PLACEHOLDER.sub(lambda found: known.get(found[1], found[0]), argument) for argument in argv]
