"""A folder that is filled out of sight and then gets its name in one step.

It lies hidden beside its place, and whoever fills it holds a lock on it, so that the next to come removes what a killed
process left.
"""

from __future__ import annotations

import ctypes
import fcntl
import os
import secrets
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from mst.errors import StoreError

_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC


@contextmanager
def hidden_beside(into: Path) -> Iterator[Path]:
    """A new folder beside `into`, of this process alone. It is gone when the block raises.

    Raises:
        StoreError: it cannot be made.
    """
    folder, handle = _made(into)
    try:
        yield folder
    except BaseException:
        shutil.rmtree(folder, ignore_errors=True)
        raise
    finally:
        os.close(handle)


def put_in_place(hidden: Path, into: Path) -> None:
    """Flush a folder to disk and give it its name.

    Raises:
        StoreError: the disk cannot take it, or there is something at `into`.
    """
    try:
        _flush_tree(hidden)
        # A rename never replaces a folder that has something in it, so what came meanwhile is safe.
        hidden.rename(into)
        _flush(into.parent)
    except OSError as error:
        raise StoreError(f"cannot put the fetched run at {into}: {error.strerror or error}") from error


def make(folder: Path) -> None:
    """Make a folder and those above it, unless they are there.

    Raises:
        StoreError: they cannot be made.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise StoreError(f"cannot make the folder {folder}: {error.strerror or error}") from error


def _made(into: Path) -> tuple[Path, int]:
    start = f".{into.name}.fetch-"
    make(into.parent)
    with suppress(OSError):
        for path in into.parent.iterdir():
            if path.name.startswith(start):
                _remove_abandoned(path)
    while True:
        folder = into.parent / f"{start}{secrets.token_hex(6)}"
        make(folder)
        handle = _held(folder)
        if handle is not None:
            return folder, handle


def _held(folder: Path) -> int | None:
    """A handle that holds a new folder; None when somebody who cleared away took it before.

    Where the file system has no locks nobody clears away.
    """
    try:
        handle = os.open(folder, _FOLDER)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise StoreError(f"cannot open the folder {folder}: {error.strerror or error}") from error
    with suppress(OSError):
        fcntl.flock(handle, fcntl.LOCK_EX)
    if folder.exists():
        return handle
    os.close(handle)
    return None


def _remove_abandoned(folder: Path) -> None:
    """Remove a hidden folder that nobody holds any more, as far as possible."""
    handle = os.open(folder, _FOLDER)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        shutil.rmtree(folder, ignore_errors=True)
    except OSError:
        return
    finally:
        os.close(handle)


def _flush_tree(folder: Path) -> None:
    """Everything below a folder is on disk when this returns.

    One call to the system for its whole file system where that is possible: a flush for each of 100,000 files takes
    minutes.
    """
    system = ctypes.CDLL(None, use_errno=True)
    if hasattr(system, "syncfs"):
        handle = os.open(folder, _FOLDER)
        try:
            if system.syncfs(handle) != 0:
                number = ctypes.get_errno()
                raise OSError(number, os.strerror(number), str(folder))
        finally:
            os.close(handle)
        return
    for inside, _, names in os.walk(folder, topdown=False):
        for name in names:
            _flush(Path(inside, name))
        _flush(Path(inside))


def _flush(path: Path) -> None:
    handle = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
