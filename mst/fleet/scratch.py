"""A worker's folder for its shards; and those that killed workers left, or a weekend of kills would fill the disk.

A worker holds a lock on its folder for as long as it lives, so the next one on the machine can tell what was left.
"""

from __future__ import annotations

import fcntl
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import structlog

from mst.process.removal import remove_tree

PREFIX = "mst-worker-"
LOCK = "lock"

log = structlog.get_logger(__name__)


@contextmanager
def own_scratch() -> Iterator[Path]:
    """A private folder for as long as the block runs, once what killed workers of this user left is gone."""
    base = Path(tempfile.gettempdir())
    for left in base.glob(f"{PREFIX}*"):
        _remove_left(left)
    folder = Path(tempfile.mkdtemp(prefix=PREFIX, dir=base))
    lock = _lock(folder)
    try:
        yield folder
    finally:
        with suppress(OSError):
            remove_tree(folder)
        os.close(lock)


def _lock(folder: Path) -> int:
    # it is there once it is held: another worker that starts meanwhile takes one that nobody holds for left
    fresh = folder / f".{LOCK}"
    lock = os.open(fresh, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600)
    fcntl.flock(lock, fcntl.LOCK_EX)
    fresh.rename(folder / LOCK)
    return lock


def _remove_left(folder: Path) -> None:
    """Remove a worker's folder if that worker is gone. One without a lock is none, or is just being made."""
    try:
        # somebody else's cannot be opened: folder and file are their owner's alone
        lock = os.open(folder / LOCK, os.O_RDWR | os.O_NOFOLLOW)
    except OSError:
        return
    try:
        if folder.is_symlink() or folder.stat().st_uid != os.geteuid():
            return
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        remove_tree(folder)
        log.info("left_removed", folder=folder.name)
    except BlockingIOError:
        return
    except OSError as error:
        log.warning("left_not_removed", folder=folder.name, reason=error.strerror)
    finally:
        os.close(lock)
