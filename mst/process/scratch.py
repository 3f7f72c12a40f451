"""Folders for a while, below the system's temporary folder: a killed process's are removed by the next one."""

from __future__ import annotations

import os
import re
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from mst.process.owner import lives, owner

_OURS = re.compile(r"mst-[a-z]+-(\d+-\d+-\d+)-\w+")


@contextmanager
def scratch_folder(purpose: str) -> Iterator[Path]:
    """A new folder, mode 0700, that is gone at the end. What killed processes of this user left goes first.

    Args:
        purpose: one word in small letters; part of its name.
    """
    parent = Path(tempfile.gettempdir())
    reap_folders(parent)
    # The context manager ignores what it can't delete: a result must not be lost to that.
    with tempfile.TemporaryDirectory(prefix=scratch_prefix(purpose), dir=parent, ignore_cleanup_errors=True) as folder:
        yield Path(folder)


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
        _remove(entry)
        if not entry.exists():
            gone.append(entry.name)
    return sorted(gone)


def _is_mine(folder: Path) -> bool:
    try:
        state = folder.lstat()
    except OSError:
        return False
    return state.st_uid == os.getuid() and folder.is_dir() and not folder.is_symlink()


def _remove(folder: Path) -> None:
    shutil.rmtree(folder, ignore_errors=True)
    if not folder.exists():
        return
    # A program may have taken away its own permissions to a folder.
    for place in [folder, *(path for path in folder.rglob("*") if path.is_dir() and not path.is_symlink())]:
        with suppress(OSError):
            place.chmod(0o700)
    shutil.rmtree(folder, ignore_errors=True)
