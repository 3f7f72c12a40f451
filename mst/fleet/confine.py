"""Bounds of one shard on a worker's machine: memory, processors and processes of everything that it runs, together."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from mst.errors import UsageError
from mst.sandboxes.cgroup import Group, Limits, find_place

DEFAULT_PIDS = 4096


@dataclass(frozen=True, kw_only=True)
class ShardBounds:
    """What one shard may use of its machine. None: no bound of that kind."""

    memory_bytes: int | None = None
    cpus: float | None = None
    pids: int | None = None

    def check(self) -> None:
        """See that this machine can keep them.

        Raises:
            UsageError: it cannot; better to say so than to keep nothing.
        """
        if self != ShardBounds() and find_place() is None:
            raise UsageError(
                "--shard-memory, --shard-cpus, --shard-pids: no control group can be made here; run the worker as root "
                "or in a delegated group (systemd: Delegate=yes), or leave them out"
            )


@contextmanager
def confined(bounds: ShardBounds) -> Iterator[Group | None]:
    """A control group for a shard; what is left in it is ended at the end. None without bounds.

    Raises:
        InfrastructureError: no group can be made.
    """
    place = find_place() if bounds != ShardBounds() else None
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
