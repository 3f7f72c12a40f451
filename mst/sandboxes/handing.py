"""Whose the trial's folders are in a container: nobody there is root, also where mst is."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path

from mst.sandboxes.system import UID


def user() -> tuple[int, int]:
    """User and group of programs in containers: this process's, or a plain one where this is root."""
    return (UID, UID) if os.getuid() == 0 else (os.getuid(), os.getgid())


def hand_over(folders: Iterable[Path]) -> None:
    """Give everything of root's in these folders to that user. Nothing to do where this process is not root.

    Links are not followed, and no path is looked up twice: programs of the trial may move things about meanwhile.
    """
    uid, gid = user()
    if os.getuid() == uid:
        return
    for folder in folders:
        for _, inner, files, handle in os.fwalk(folder, follow_symlinks=False):
            _give(".", handle, uid, gid)
            for name in (*inner, *files):
                _give(name, handle, uid, gid)


def _give(name: str, folder: int, uid: int, gid: int) -> None:
    try:
        if os.stat(name, dir_fd=folder, follow_symlinks=False).st_uid == 0:
            os.chown(name, uid, gid, dir_fd=folder, follow_symlinks=False)
    except FileNotFoundError:
        return
