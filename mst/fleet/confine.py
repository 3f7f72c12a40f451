"""Bounds of one shard on a worker's machine: what it may use together with everything that it runs.

Memory, processors and processes are kept by a control group, or by the engine where each shard has a container; disk
and time by `mst.fleet.overuse`.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from mst.errors import InfrastructureError, UsageError
from mst.sandboxes.cgroup import Group, Limits, find_place
from mst.sandboxes.containers import engine, image_id, reap
from mst.shards.container_channel import PIDS, Machine

DEFAULT_PIDS = 4096


@dataclass(frozen=True, kw_only=True)
class ShardBounds:
    """What one shard may use of its machine. None: no bound of that kind.

    Attributes:
        disk_bytes: below its own folder, bundle and results included.
        time_s: of one attempt.
    """

    memory_bytes: int | None = None
    cpus: float | None = None
    pids: int | None = None
    disk_bytes: int | None = None
    time_s: float | None = None

    @property
    def needs_group(self) -> bool:
        """Whether some of them are kept by a control group."""
        return (self.memory_bytes, self.cpus, self.pids) != (None, None, None)

    def check(self, scratch: Path) -> None:
        """See that this machine can keep them.

        Args:
            scratch: where the shards' folders will lie.

        Raises:
            UsageError: it cannot; better to say so than to keep nothing.
        """
        free = shutil.disk_usage(scratch).free
        if self.disk_bytes is not None and self.disk_bytes > free:
            raise UsageError(
                f"--shard-disk {self.disk_bytes / 1024**3:g}: only {free / 1024**3:.3g} GiB are free in {scratch}; "
                "ask for less, or set TMPDIR to a folder on a larger disk"
            )
        if self.needs_group and find_place() is None:
            raise UsageError(
                "--shard-memory, --shard-cpus, --shard-pids: no control group can be made here; run the worker as root "
                "or in a delegated group (systemd: Delegate=yes), or leave them out"
            )


def container(image: str, bounds: ShardBounds) -> Machine:
    """A container for each shard, within these bounds. Removes those of workers that are gone.

    Raises:
        UsageError: no such image here.
        InfrastructureError: no engine answers, or the package is missing.
    """
    engine()
    try:
        found = image_id(image)
    except InfrastructureError as error:
        raise UsageError(f"--shard-image {error}") from error
    reap()
    return Machine(
        image=found,
        cpus=bounds.cpus,
        memory_bytes=bounds.memory_bytes,
        pids=bounds.pids or PIDS,
        file_bytes=bounds.disk_bytes,
        environment={"MST_IMAGE_DIGEST": found},
    )


@contextmanager
def confined(bounds: ShardBounds) -> Iterator[Group | None]:
    """A control group for a shard; what is left in it is ended at the end. None where none of the bounds needs one.

    Raises:
        InfrastructureError: no group can be made.
    """
    place = find_place() if bounds.needs_group else None
    if place is None:
        yield None
        return
    limits = Limits(
        memory_bytes=bounds.memory_bytes or 2**62,
        pids=bounds.pids or DEFAULT_PIDS,
        cpus=bounds.cpus,
    )
    group = Group(place, limits)
    try:
        yield group
    finally:
        group.remove()


def join(group: Group, pid: int) -> None:
    """Put a process that has just started into a group; what it starts stays in it."""
    for folder in group.folders:
        (folder / "cgroup.procs").write_text(str(pid))
