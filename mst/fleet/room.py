"""Whether a worker's disk has room for another shard: on a full one it would fail each shard that it takes."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from mst.errors import UsageError

MIN_FREE_BYTES = 512 * 1024**2
MIN_FREE_FILES = 1000
"""A disk of many small files runs out of places for them before it runs out of bytes."""


@dataclass(frozen=True)
class Room:
    """The disk of a folder, and what must be free there before a shard is taken."""

    folder: Path
    min_free_bytes: int = MIN_FREE_BYTES

    def check(self) -> None:
        """See that there can ever be room.

        Raises:
            UsageError: the whole disk is smaller than what must be free.
        """
        disk = os.statvfs(self.folder)
        whole = disk.f_blocks * disk.f_frsize
        if whole < self.min_free_bytes:
            raise UsageError(
                f"--min-free {_gib(self.min_free_bytes)}: {self.folder} holds {_gib(whole)} GiB in all; ask for less, "
                "or set TMPDIR to a folder on a larger disk"
            )

    def lack(self) -> str | None:
        """Why no shard may start now; None when there is room."""
        try:
            disk = os.statvfs(self.folder)
        except OSError as error:
            return f"{self.folder}: {error.strerror}"
        free = disk.f_bavail * disk.f_frsize
        if free < self.min_free_bytes:
            return f"{_gib(free)} GiB are free in {self.folder}, {_gib(self.min_free_bytes)} must be"
        # some file systems count no files
        if disk.f_files and disk.f_favail < MIN_FREE_FILES:
            return f"{disk.f_favail} more files fit in {self.folder}, {MIN_FREE_FILES} must"
        return None


def _gib(count: int) -> str:
    return f"{count / 1024**3:.2f}".rstrip("0").removesuffix(".")
