"""How much of a disk the files below some folders take."""

from __future__ import annotations

import os
import threading
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

BLOCK_BYTES = 512


def used_bytes(folders: Sequence[Path], most: int, stop: threading.Event | None = None) -> int:
    """Bytes of disk below folders; links are followed nowhere, and a file of several names is counted once.

    What vanishes meanwhile, or may not be read, is passed over. Blocks; ends early when it is more than `most`, or when
    `stop` is set.
    """
    total = 0
    linked: set[tuple[int, int]] = set()
    pending = [str(folder) for folder in folders]
    while pending and total <= most and not (stop is not None and stop.is_set()):
        with suppress(OSError), os.scandir(pending.pop()) as entries:
            for entry in entries:
                with suppress(OSError):
                    total += _own_bytes(entry, linked)
                    if entry.is_dir(follow_symlinks=False):
                        pending.append(entry.path)
                if total > most:
                    break
    return total


def _own_bytes(entry: os.DirEntry[str], linked: set[tuple[int, int]]) -> int:
    status = entry.stat(follow_symlinks=False)
    # files that take nothing need not be remembered: so `most` bounds what is remembered too
    if status.st_blocks and status.st_nlink > 1 and not entry.is_dir(follow_symlinks=False):
        if (status.st_dev, status.st_ino) in linked:
            return 0
        linked.add((status.st_dev, status.st_ino))
    return status.st_blocks * BLOCK_BYTES
