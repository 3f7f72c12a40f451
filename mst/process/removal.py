"""Removing what programs left: as deep as they like, and also where they took away their own permissions."""

from __future__ import annotations

import os
import secrets
import stat
from contextlib import suppress
from itertools import count
from pathlib import Path

_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW


def remove_tree(folder: Path) -> None:
    """Delete a folder and everything in it. Silent when it is gone. Blocks.

    Folders inside are lifted to the top before they are emptied: a program can nest folders until the interpreter's
    recursion and the length of a path give up, and whoever cleans up must not.

    Raises:
        OSError: something can't be deleted, or this is no folder; everything else in it is gone.
    """
    try:
        top = _opened(str(folder), None)
    except FileNotFoundError:
        return
    kept: dict[str, OSError] = {}
    try:
        lifted = _Lifted(top)
        while names := [name for name in _names(top) if name not in kept]:
            for name in names:
                try:
                    lifted.remove(name)
                except FileNotFoundError:
                    continue
                except OSError as error:
                    kept[name] = error
    finally:
        os.close(top)
    if kept:
        raise next(iter(kept.values()))
    folder.rmdir()


class _Lifted:
    """Removes entries of an open folder, each with its plain files; what folders it has become entries themselves."""

    def __init__(self, top: int) -> None:
        self._top = top
        self._mark = f".{secrets.token_hex(8)}"
        self._number = count()

    def remove(self, name: str) -> None:
        """Remove one entry, or leave its folders beside it.

        Raises:
            OSError: it stays.
        """
        if not _is_folder(name, self._top):
            os.unlink(name, dir_fd=self._top)
            return
        opened = _opened(name, self._top)
        try:
            for inner in _names(opened):
                self._take_out(inner, opened)
        finally:
            os.close(opened)
        os.rmdir(name, dir_fd=self._top)

    def _take_out(self, name: str, folder: int) -> None:
        if not _is_folder(name, folder):
            os.unlink(name, dir_fd=folder)
            return
        target = f"{self._mark}-{next(self._number)}"
        try:
            os.rename(name, target, src_dir_fd=folder, dst_dir_fd=self._top)
        except PermissionError:  # a folder that changes its parent is written to
            os.chmod(name, stat.S_IRWXU, dir_fd=folder)
            os.rename(name, target, src_dir_fd=folder, dst_dir_fd=self._top)


def _names(folder: int) -> list[str]:
    with os.scandir(folder) as entries:
        return [entry.name for entry in entries]


def _is_folder(name: str, inside: int) -> bool:
    return stat.S_ISDIR(os.stat(name, dir_fd=inside, follow_symlinks=False).st_mode)


def _opened(name: str, inside: int | None) -> int:
    """A folder that can be read and emptied, open. Links are not followed."""
    with suppress(PermissionError):
        found = os.open(name, _FOLDER, dir_fd=inside)
        with suppress(OSError):
            os.fchmod(found, stat.S_IRWXU)
        return found
    os.chmod(name, stat.S_IRWXU, dir_fd=inside)
    return os.open(name, _FOLDER, dir_fd=inside)
