"""Folders for a while, below the system's temporary folder: a killed process's are removed by the next one."""

from __future__ import annotations

import os
import re
import secrets
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
    folder = Path(tempfile.mkdtemp(prefix=scratch_prefix(purpose), dir=parent))
    try:
        yield folder
    finally:
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


def remove_tree(folder: Path) -> None:
    """Remove a folder with whatever a program left in it. What cannot go stays: no result must be lost to that."""
    # one call for each level: a program may have made a thousand
    with suppress(RecursionError):
        shutil.rmtree(folder, ignore_errors=True)
    if folder.exists():
        _remove_bit_by_bit(folder)


def _remove_bit_by_bit(folder: Path) -> None:
    """The same for folders that are very deep, or to which a program took away its own permissions."""
    with suppress(OSError):
        folder.chmod(0o700)
        pending = _folders_in(folder)
        while pending:
            place = pending.pop()
            with suppress(OSError):
                for inner in _folders_in(place):
                    pending.append(inner.rename(folder / secrets.token_hex(8)))
            with suppress(RecursionError):
                shutil.rmtree(place, ignore_errors=True)
    with suppress(RecursionError):
        shutil.rmtree(folder, ignore_errors=True)


def _folders_in(folder: Path) -> list[Path]:
    """The folders right below one, all of which may be entered and moved then."""
    folder.chmod(0o700)
    found = [path for path in folder.iterdir() if path.is_dir() and not path.is_symlink()]
    for path in found:
        path.chmod(0o700)
    return found
