"""Files that a program wrote, read with care."""

from __future__ import annotations

import os
import stat
from pathlib import Path


def read_bounded(folder: Path, relative: str, limit: int) -> bytes | None:
    """A file that a program wrote; None: missing, too large, or no plain file of that folder.

    It may have put a link or a pipe there instead, so it is opened with care.
    """
    path = folder / relative
    if not path.parent.resolve().is_relative_to(folder.resolve()):
        return None
    try:
        handle = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    except OSError:
        return None
    if not stat.S_ISREG(os.fstat(handle).st_mode):
        os.close(handle)
        return None
    with os.fdopen(handle, "rb") as stream:
        data = stream.read(limit + 1)
    return data if len(data) <= limit else None
