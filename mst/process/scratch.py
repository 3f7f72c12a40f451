"""Folders for a while, below the system's temporary folder: a killed process's are removed by the next one."""

from __future__ import annotations

import os
import re
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from mst.process.owner import lives, owner
from mst.process.removal import remove_tree

_OURS = re.compile(r"mst-[a-z]+-(\d+-\d+-\d+)-\w+")


@contextmanager
def scratch_folder(purpose: str) -> Iterator[Path]:
    """A new folder, mode 0700, that is gone at the end. What killed processes of this user left goes first.

    Args:
        purpose: one word in small letters; part of its name.
    """
    parent = Path(tempfile.gettempdir())
    reap_folders(parent)
    folder = Path(tempfile.mkdtemp(prefix=scratch_prefix(purpose), dir=parent))
    try:
        yield folder
    finally:
        with suppress(OSError):  # a result must not be lost to what can't be deleted
            remove_tree(folder)


def scratch_prefix(purpose: str) -> str:
    """How the name of a temporary folder begins that is to go should this process be killed. `purpose`: as above."""
    return f"mst-{purpose}-{owner()}-"


def reap_folders(parent: Path) -> list[str]:
    """Remove folders whose process is gone; their names, sorted. Other users' are left alone. Idempotent."""
    gone = []
    for entry in list(parent.glob("mst-*-*-*-*-*")):
        found = _OURS.fullmatch(entry.name)
        if found is None or lives(found[1]) or not _is_mine(entry):
            continue
        with suppress(OSError):
            remove_tree(entry)
        if not entry.exists():
            gone.append(entry.name)
    return sorted(gone)


def _is_mine(folder: Path) -> bool:
    try:
        state = folder.lstat()
    except OSError:
        return False
    return state.st_uid == os.getuid() and folder.is_dir() and not folder.is_symlink()
