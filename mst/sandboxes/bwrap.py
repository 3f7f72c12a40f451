"""Bubblewrap: programs in namespaces of their own, without root, on Linux.

They see the system read-only, the trial's two folders, and nothing else of this machine; no other process; no network
unless it is asked for. When the program of a call ends, the kernel ends everything that it started.
"""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any, ClassVar

from mst.errors import InfrastructureError, ProgramError
from mst.process.child import TERM_GRACE_S, ChildResult, run_child
from mst.process.environment import clean_environment, make_home
from mst.process.group import marked
from mst.process.lastwords import last_words
from mst.sandboxes.cgroup import Group, Limits, Place, find_place
from mst.sandboxes.contract import Beside, Folders, Launch
from mst.sandboxes.door import CHILD, Door, Serve, open_here, open_inside
from mst.sandboxes.options import SandboxOptions
from mst.sandboxes.system import (
    HOME,
    SCRATCH,
    UID,
    WORKSPACE,
    account_files,
    inner_path,
    is_system,
    python_roots,
    system_arguments,
)
from mst.sandboxes.telling import SCRIPT, names_left, telling
from mst.sandboxes.watch import Bounds, watch

PROGRAM = "bwrap"
_PRLIMIT = "prlimit"
_PROBE_S = 10.0
_FIRST_PORT = 8600
_SHM_BYTES = 256 * 1024 * 1024
_NAMESPACES = (
    "--unshare-user",
    "--unshare-pid",
    "--unshare-ipc",
    "--unshare-uts",
    "--unshare-cgroup-try",
    "--disable-userns",
    "--die-with-parent",
    "--hostname",
    "mst",
    "--uid",
    str(UID),
    "--gid",
    str(UID),
)
# Joins the groups that come first, then becomes bubblewrap.
_JOIN = (
    'n=$1; shift; while [ "$n" -gt 0 ]; do echo 0 >"$1/cgroup.procs" || exit 125; shift; n=$((n - 1)); done; exec "$@"'
)


class Bwrap:
    """See `Sandbox`."""

    isolates: ClassVar[bool] = True

    def __init__(self, options: SandboxOptions) -> None:
        self.options = options

    def faults(self) -> list[str]:
        """Bubblewrap is missing or may not make namespaces here; a folder to read, or an option, is not to be had."""
        fault = _fault_of_bwrap()
        faults = [] if fault is None else [fault]
        if find_place() is None:
            faults += _faults_without_groups()
        if self.options.cpus is not None and (find_place() is None or "cpu" not in (find_place() or _NOWHERE).folders):
            faults.append("sandbox.cpus: no control group for processor time can be made here; leave it out")
        faults += [
            f"sandbox.read: {path}: no such file or folder" for path in self.options.read if not Path(path).exists()
        ]
        return faults

    def program_fault(self, name: str, path: str | None = None, *, image: str | None = None) -> str | None:
        """See `Sandbox.program_fault`."""
        if image is not None:
            return f"{name}: an image of its own needs sandbox.kind: docker"
        return visible_fault(name, path, self.options.read)

    def enter(self, folders: Folders, *, image: str | None = None) -> BwrapEnclosure:
        """See `Sandbox.enter`. A case's image means nothing here: the system is this machine's."""
        return BwrapEnclosure(self.options, folders, find_place())


_NOWHERE = Place(0, {})


def _faults_without_groups() -> list[str]:
    """Why processes cannot be limited without control groups. Nothing but the kernel is quick enough to do it."""
    if os.geteuid() == 0:
        reason = "root is bound by no limit of processes but a control group's, and none can be made here"
        return [f"sandbox bwrap: {reason}; make /sys/fs/cgroup writable, or run as another user"]
    if shutil.which(_PRLIMIT) is None:
        return [f"sandbox bwrap: without control groups {_PRLIMIT} is needed (apt install util-linux)"]
    return []


class BwrapEnclosure:
    """See `Enclosure`."""

    python: ClassVar[str] = sys.executable
    passes_descriptors: ClassVar[bool] = True

    def __init__(self, options: SandboxOptions, folders: Folders, place: Place | None) -> None:
        self._options = options
        self._folders = folders
        limits = Limits(memory_bytes=options.memory, pids=options.pids, cpus=options.cpus)
        self._group = None if place is None else Group(place, limits)
        self._kept = "watched" if place is None else "kernel"
        self._reached: dict[str, int] = {}
        self._passed: dict[str, int] = {}
        self._runs = 0
        self._doors: list[Door] = []
        make_home(folders.scratch / "home")

    def seen(self, path: Path) -> Path:
        """See `Enclosure.seen`."""
        return self._folders.inside(path)

    def environment(self, declared: Mapping[str, str]) -> dict[str, str]:
        """See `Enclosure.environment`."""
        return clean_environment(HOME, {"PATH": inner_path(), "TMPDIR": "/tmp", **declared})  # noqa: S108 - the sandbox's own

    async def run(
        self,
        argv: Sequence[str],
        *,
        cwd: Path,
        env: Mapping[str, str],
        stdin: bytes | None = None,
        timeout_s: float,
        output_bytes: int,
        stop: asyncio.Future[str] | None = None,
        read: Sequence[Path] = (),
        pass_fds: Sequence[int] = (),
        grace_s: float = TERM_GRACE_S,
        on_start: Callable[[int], None] | None = None,
    ) -> ChildResult:
        """See `Enclosure.run`. A program that a limit of the sandbox ended has the limit's name in `stopped`."""
        self._refuse_missing(argv, cwd, env)
        started: list[int] = []
        over = stop or asyncio.get_running_loop().create_future()
        self._runs += 1
        told = self._folders.scratch / f".left-{self._runs}"
        launch = self._launch(argv, cwd=cwd, env=env, read=read, told=told)
        watching = asyncio.ensure_future(watch(self._bounds(), lambda: next(iter(started), None), over))

        def begun(pid: int) -> None:
            started.append(pid)
            launch.started()
            if on_start is not None:
                on_start(pid)

        before = self._oom_kills()
        try:
            child = await run_child(
                launch.argv,
                cwd=launch.cwd,
                env=launch.env,
                stdin=stdin,
                timeout_s=timeout_s,
                output_bytes=output_bytes,
                on_start=begun,
                grace_s=grace_s,
                pass_fds=[*launch.pass_fds, *pass_fds],
                stop=over,
                terminate=launch.terminate,
            )
            left = names_left(told)
        finally:
            if not started:
                launch.started()
            watching.cancel()
            await asyncio.gather(watching, return_exceptions=True)
        stopped = child.stopped
        if stopped is None and child.exit_code != 0 and self._oom_kills() > before:
            stopped = "memory"
        if stopped in {"memory", "pids", "disk"} and stopped not in self._counts():
            self._passed[stopped] = 1
        # What died with the namespace was told from inside; what carries the mark outside is bubblewrap itself.
        return ChildResult(**{**vars(child), "leftovers": left, "stopped": stopped, "exit_code": _signalled(child)})

    async def beside(
        self, argv: Sequence[str], *, cwd: Path, env: Mapping[str, str], image: str | None = None
    ) -> Beside:
        """See `Enclosure.beside`: the program starts it itself."""
        return Beside(argv=argv, env=env)

    async def launch(
        self,
        argv: Sequence[str],
        *,
        cwd: Path,
        env: Mapping[str, str],
        read: Sequence[Path] = (),
        image: str | None = None,
    ) -> Launch:
        """See `Enclosure.launch`."""
        self._refuse_missing(argv, cwd, env)
        return self._launch(argv, cwd=cwd, env=env, read=read, told=None)

    async def door(self, serve: Serve) -> Door:
        """See `Enclosure.door`."""
        if self._options.reach == "open":
            door = await open_here(serve)
        else:
            door = await open_inside(serve, self._folders.scratch, SCRATCH, _FIRST_PORT + len(self._doors))
        self._doors.append(door)
        return door

    def findings(self) -> dict[str, Any]:
        """See `Enclosure.findings`."""
        found: dict[str, Any] = {
            "kind": "bwrap",
            "network": self._options.reach,
            "limits": {"memory": self._kept, "pids": "kernel", "disk": "watched"},
        }
        if reached := self._counts():
            found["reached"] = reached
        return found

    async def close(self) -> None:
        """See `Enclosure.close`."""
        while self._doors:
            await self._doors.pop().close()
        group, self._group = self._group, None
        if group is not None:
            self._reached = group.reached()
            await asyncio.to_thread(group.remove)

    def _counts(self) -> dict[str, int]:
        by_kernel = self._reached if self._group is None else self._group.reached()
        return {**self._passed, **by_kernel}

    def _oom_kills(self) -> int:
        return self._counts().get("memory", 0)

    def _bounds(self) -> Bounds:
        watched = self._group is None
        return Bounds(
            folders=self._folders.listed,
            disk_bytes=self._options.disk,
            memory_bytes=self._options.memory if watched else None,
        )

    def _refuse_missing(self, argv: Sequence[str], cwd: Path, env: Mapping[str, str]) -> None:
        # Bubblewrap would end with code 127, which nobody could tell from the program's own.
        if not cwd.is_dir():
            raise ProgramError(f"{argv[0]}: its working folder does not exist")
        fault = visible_fault(argv[0], env.get("PATH"), self._options.read)
        if fault is not None:
            raise ProgramError(fault)
        if any("\0" in text for text in (*argv, *env, *env.values())):
            raise ProgramError(f"{argv[0]}: could not be started: an argument or a variable holds a NUL byte")

    def _launch(
        self, argv: Sequence[str], *, cwd: Path, env: Mapping[str, str], read: Sequence[Path], told: Path | None
    ) -> Launch:
        data: list[int] = []
        arguments = self._arguments(cwd, read, data)
        listed = _memory_file(b"\0".join(argument.encode() for argument in arguments) + b"\0")
        bwrap = [str(shutil.which(PROGRAM)), "--args", str(listed), "--", *argv]
        passed = [listed, *data]
        if self._group is None:
            # Inside the namespace only its own processes count.
            bwrap[4:4] = [_PRLIMIT, f"--nproc={self._options.pids}", "--"]
        if told is not None:
            bwrap[4:4] = telling(self.seen(told))
        if self._group is not None:
            folders = [str(folder) for folder in self._group.folders]
            bwrap = ["/bin/sh", "-c", _JOIN, "sh", str(len(folders)), *folders, *bwrap]

        def close_ours() -> None:
            for handle in passed:
                with suppress(OSError):
                    os.close(handle)

        return Launch(argv=bwrap, cwd=Path("/"), env=env, pass_fds=passed, started=close_ours, terminate=_terminate)

    def _arguments(self, cwd: Path, read: Sequence[Path], data: list[int]) -> list[str]:
        scratch, workspace = self._folders.scratch, self._folders.workspace
        found = [*_NAMESPACES, *system_arguments()]
        if self._options.reach != "open":
            found.append("--unshare-net")
        for name, content in self._made_files().items():
            data.append(_memory_file(content))
            found += ["--ro-bind-data", str(data[-1]), f"/etc/{name}"]
        found += ["--proc", "/proc", "--dev", "/dev", "--size", str(_SHM_BYTES), "--tmpfs", "/dev/shm", "--dir", "/run"]  # noqa: S108 - the sandbox's own
        found += ["--bind", str(scratch), str(SCRATCH), "--bind", str(scratch / "home" / "tmp"), "/tmp"]  # noqa: S108 - as above
        if workspace is not None:
            found += ["--bind", str(workspace), str(WORKSPACE)]
        for path in (*python_roots(), *map(Path, self._options.read), *([CHILD] if self._doors else []), *read):
            if not is_system(path):
                found += ["--ro-bind", str(path), str(path)]
        return [*found, "--remount-ro", "/", "--cap-drop", "ALL", "--chdir", str(self.seen(cwd))]

    def _made_files(self) -> dict[str, bytes]:
        files = account_files()
        if self._options.reach == "open":
            with suppress(OSError):
                files["resolv.conf"] = Path("/etc/resolv.conf").read_bytes()
        return files


def visible_fault(name: str, path: str | None, read: Sequence[str]) -> str | None:
    """Why a program can't be started inside, or None. A relative path with a slash can't be judged from outside."""
    if os.sep in name and not Path(name).is_absolute():
        return None
    absolute = Path(name).is_absolute()
    if absolute and (name.startswith((f"{WORKSPACE}/", f"{SCRATCH}/"))):
        return None
    found = shutil.which(name, path=inner_path() if path is None else path)
    if found is None:
        elsewhere = None if absolute else shutil.which(name)
        if elsewhere is not None:
            return f"{name}: not on the sandbox's search path; add {Path(elsewhere).parent} to sandbox.read and to PATH"
        return f"{name}: no such program; install it or give its path"
    for place in (Path(found), Path(found).resolve()):
        if not _is_visible(place, read):
            return f"{name}: {place} is not visible in the sandbox; add its folder to sandbox.read"
    return None


def _is_visible(place: Path, read: Sequence[str]) -> bool:
    return is_system(place) or any(place.is_relative_to(root) for root in (*python_roots(), *map(Path, read)))


@cache
def _fault_of_bwrap() -> str | None:
    """Why bubblewrap does not work here, found by running it once."""
    if sys.platform != "linux":
        return "sandbox bwrap: bubblewrap exists on Linux only; use docker"
    program = shutil.which(PROGRAM)
    if program is None:
        return "sandbox bwrap: bubblewrap is not installed (apt install bubblewrap, dnf install bubblewrap)"
    try:
        argv = [program, *_NAMESPACES, *system_arguments(), "--unshare-net", "--proc", "/proc", "--dev", "/dev", "true"]
        ended = subprocess.run(argv, capture_output=True, timeout=_PROBE_S, check=False, env={})
    except (OSError, subprocess.TimeoutExpired) as error:
        return f"sandbox bwrap: {program} cannot be run: {error}"
    if ended.returncode == 0:
        return None
    words = last_words(ended.stderr)
    return (
        f"sandbox bwrap: namespaces cannot be made here: {words}; inside a container it needs the right to make user "
        "namespaces, and version 0.8 of bubblewrap or newer"
    )


def _terminate(mark: str) -> None:
    """SIGTERM to the programs inside, not to bubblewrap: its end would be theirs at once."""
    for other in marked(mark):
        with suppress(OSError):
            place = Path(f"/proc/{other}")
            if (place / "comm").read_text().strip() == PROGRAM or SCRIPT.encode() in (place / "cmdline").read_bytes():
                continue
            os.kill(other, signal.SIGTERM)


def _signalled(child: ChildResult) -> int:
    """Bubblewrap ends with 128 + n when a signal n ended the program; outside it is told as -n."""
    code = child.exit_code
    return 128 - code if 128 < code <= 128 + signal.NSIG else code


def _memory_file(content: bytes) -> int:
    handle = os.memfd_create("mst")
    try:
        os.write(handle, content)
        os.lseek(handle, 0, os.SEEK_SET)
    except OSError as error:
        os.close(handle)
        raise InfrastructureError(f"no memory for the sandbox's arguments: {error.strerror}") from error
    return handle
