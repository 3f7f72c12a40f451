"""Control groups of one trial: memory, processes and processor time of everything that it runs, together.

A group is made below the group that this process is in, so that limits set from outside go on to hold. Both versions
are known: version 2 where it was delegated to this user (or to root), version 1 where root may write to it.
"""

from __future__ import annotations

import os
import secrets
import signal
import time
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

from mst.errors import InfrastructureError

PREFIX = "mst-"
_NEEDED = ("memory", "pids")
_PERIOD_US = 100_000
_REMOVE_S = 5.0
_PACE_S = 0.01


@dataclass(frozen=True, kw_only=True)
class Limits:
    """Of one group."""

    memory_bytes: int
    pids: int
    cpus: float | None = None


@dataclass(frozen=True)
class Place:
    """Where groups can be made: a folder for each controller; all the same one in version 2."""

    version: int
    folders: dict[str, Path] = field(hash=False)


class Group:
    """One group, existing until `remove`."""

    def __init__(self, place: Place, limits: Limits) -> None:
        self._place = place
        name = f"{PREFIX}{os.getpid()}-{secrets.token_hex(4)}"
        wanted = [*_NEEDED, *(["cpu"] if limits.cpus is not None else [])]
        absent = [controller for controller in wanted if controller not in place.folders]
        if absent:
            raise InfrastructureError(f"no control group for {absent[0]} can be made here; leave the limit out")
        self._at = {controller: place.folders[controller] / name for controller in wanted}
        try:
            for folder in self.folders:
                folder.mkdir()
            self._set(limits)
        except OSError as error:
            self.remove()
            raise InfrastructureError(f"no control group can be made for a trial: {error.strerror}") from error

    @property
    def folders(self) -> list[Path]:
        """Folders whose `cgroup.procs` a process writes itself to, to join."""
        return sorted(set(self._at.values()))

    def reached(self) -> dict[str, int]:
        """Limits that were reached so far: how often the kernel ended a process, or refused one."""
        found = {"memory": self._oom_kills(), "pids": _field(self._at["pids"] / "pids.events", "max")}
        return {name: count for name, count in found.items() if count}

    def kill(self) -> None:
        """End every process in it."""
        for folder in self.folders:
            _end(folder)

    def remove(self) -> None:
        """End what is in it and remove it; silent when it is gone. Blocks until the kernel let the last process go."""
        deadline = time.monotonic() + _REMOVE_S
        while any(folder.exists() for folder in self.folders):
            self.kill()
            for folder in self.folders:
                with suppress(OSError):
                    folder.rmdir()
            if time.monotonic() > deadline:
                return
            if any(folder.exists() for folder in self.folders):
                # Not a wait for an event: the kernel tells nobody when a group has become empty (version 1).
                _pause()

    def _set(self, limits: Limits) -> None:
        memory, pids = self._at["memory"], self._at["pids"]
        two = self._place.version == 2
        _write(memory / ("memory.max" if two else "memory.limit_in_bytes"), str(limits.memory_bytes))
        # Without this, what is over the limit goes to swap and the limit limits nothing.
        with suppress(OSError):
            swap = ("memory.swap.max", "0") if two else ("memory.memsw.limit_in_bytes", str(limits.memory_bytes))
            _write(memory / swap[0], swap[1])
        _write(pids / "pids.max", str(limits.pids))
        if limits.cpus is not None:
            quota = str(max(1000, int(limits.cpus * _PERIOD_US)))
            if two:
                _write(self._at["cpu"] / "cpu.max", f"{quota} {_PERIOD_US}")
            else:
                _write(self._at["cpu"] / "cpu.cfs_period_us", str(_PERIOD_US))
                _write(self._at["cpu"] / "cpu.cfs_quota_us", quota)

    def _oom_kills(self) -> int:
        name = "memory.events" if self._place.version == 2 else "memory.oom_control"
        return _field(self._at["memory"] / name, "oom_kill")


@cache
def find_place() -> Place | None:
    """Where this process can make groups with limits, or None. Tried by making one.

    Groups of processes that were killed, and so could not remove theirs, are removed with what is still in them.
    """
    place = place_in(Path("/proc/self"), Path("/sys/fs/cgroup"))
    if place is None:
        return None
    reap(place)
    try:
        Group(place, Limits(memory_bytes=1024**3, pids=64)).remove()
    except InfrastructureError:
        return None
    return place


def reap(place: Place) -> list[str]:
    """Remove groups whose maker is gone; returns their names, sorted. What cannot be removed stays. Idempotent."""
    gone = set()
    for base in set(place.folders.values()):
        for folder in base.glob(f"{PREFIX}*-*"):
            maker = folder.name.removeprefix(PREFIX).split("-")[0]
            if not maker.isdigit() or Path(f"/proc/{maker}").exists():
                continue
            _end(folder)
            with suppress(OSError):
                folder.rmdir()
                gone.add(folder.name)
    return sorted(gone)


def place_in(proc: Path, mounted: Path) -> Place | None:
    """The place as the kernel describes it in these folders; whether it may be written to is not known yet."""
    try:
        lines = (proc / "cgroup").read_text().splitlines()
        mounts = _mounts((proc / "mountinfo").read_text())
    except OSError:
        return None
    groups = {names: path for _, names, path in (line.split(":", 2) for line in lines)}
    folders = {
        controller: folder
        for names, path in groups.items()
        for controller in names.split(",")
        if controller and (folder := _folder(mounts.get(controller), path)) is not None
    }
    if all(name in folders for name in _NEEDED):
        return Place(1, folders)
    return _second(mounted, groups.get("", "/"))


def _second(mounted: Path, path: str) -> Place | None:
    for base in dict.fromkeys((mounted / path.lstrip("/"), mounted)):
        try:
            known = (base / "cgroup.controllers").read_text().split()
            enabled = (base / "cgroup.subtree_control").read_text().split()
            for name in (*_NEEDED, "cpu"):
                if name in known and name not in enabled:
                    _write(base / "cgroup.subtree_control", f"+{name}")
                    enabled.append(name)
        except OSError:
            # Not ours to write, or (EBUSY) a group with processes of its own, which cannot pass limits on.
            continue
        if all(name in enabled for name in _NEEDED) and os.access(base, os.W_OK):
            return Place(2, dict.fromkeys(enabled, base))
    return None


def _mounts(mountinfo: str) -> dict[str, tuple[str, Path]]:
    """Of version 1: by controller, the root within its hierarchy and where that is mounted."""
    found = {}
    for line in mountinfo.splitlines():
        before, _, after = line.partition(" - ")
        kind, _, options = after.split(" ")[:3]
        if kind == "cgroup":
            root, point = before.split(" ")[3:5]
            found.update({name: (root, Path(point)) for name in options.split(",")})
    return found


def _folder(mount: tuple[str, Path] | None, path: str) -> Path | None:
    if mount is None:
        return None
    root, point = mount
    relative = path.removeprefix(root) if root != "/" else path
    folder = point / relative.lstrip("/")
    return folder if folder.is_dir() else point


def _write(path: Path, text: str) -> None:
    # No creation: a file that is missing here is a controller that is missing.
    handle = os.open(path, os.O_WRONLY)
    try:
        os.write(handle, text.encode())
    finally:
        os.close(handle)


def _field(path: Path, name: str) -> int:
    try:
        lines = path.read_text().splitlines()
    except OSError:
        return 0
    return next((int(value) for key, _, value in (line.partition(" ") for line in lines) if key == name), 0)


def _end(folder: Path) -> None:
    for pid in _pids(folder):
        with suppress(ProcessLookupError, PermissionError):
            os.kill(pid, signal.SIGKILL)


def _pids(folder: Path) -> list[int]:
    try:
        return [int(line) for line in (folder / "cgroup.procs").read_text().split()]
    except OSError:
        return []


def _pause() -> None:
    import threading  # noqa: PLC0415 - only for the rare wait

    threading.Event().wait(_PACE_S)
