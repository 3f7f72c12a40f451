"""Docker: a container for each program of a trial; of this machine it has the trial's folders and nothing else."""

from __future__ import annotations

import asyncio
import contextlib
import os
import secrets
import shutil
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from mst.errors import InfrastructureError, ProgramError
from mst.process.child import TERM_GRACE_S, ChildResult, run_child
from mst.process.environment import clean_environment, make_home
from mst.sandboxes.contract import Folders, Launch
from mst.sandboxes.door import CHILD, Door, Serve, open_inside
from mst.sandboxes.options import SandboxOptions, allowlist_faults
from mst.sandboxes.system import HOME, SCRATCH, WORKSPACE
from mst.sandboxes.telling import names_left, telling
from mst.sandboxes.watch import Bounds, watch

if TYPE_CHECKING:
    from docker import DockerClient

LABEL = "mst.owner"
"""Of everything that is made; its value names the process, so that what a dead one left is found."""
_PROGRAM = "docker"
_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
_PYTHON = "python3"
_FIRST_PORT = 8600
_SHM_BYTES = 256 * 1024 * 1024
_ENGINE_S = 60
_MISSING_CODES = {126, 127}
_NOT_STARTED = ("executable file not found", "no such file or directory: unknown", "permission denied: unknown")


class DockerSandbox:
    """See `Sandbox`. The engine must be on this machine: the trial's folders are mounted."""

    isolates: ClassVar[bool] = True

    def __init__(self, options: SandboxOptions) -> None:
        self.options = options

    def faults(self) -> list[str]:
        """No engine, no client program, no such image here."""
        faults = allowlist_faults(self.options)
        if shutil.which(_PROGRAM) is None:
            faults.append("sandbox docker: the program 'docker' is not on PATH; install Docker's command line")
        fault = engine_fault()
        if fault is not None:
            return [*faults, fault]
        if self.options.image is not None:
            try:
                image_id(self.options.image)
            except InfrastructureError as error:
                faults.append(f"sandbox.image: {error}")
        return faults

    def program_fault(self, name: str, path: str | None = None) -> str | None:
        """Nothing can be said from outside of an image; a program that is missing is told when it is started."""
        return None

    def enter(self, folders: Folders, *, image: str | None = None) -> DockerEnclosure:
        """See `Sandbox.enter`. A case's image wins over the variant's."""
        name = image or self.options.image
        if name is None:
            raise InfrastructureError("sandbox docker: no image; give sandbox.image, or the case an image")
        return DockerEnclosure(self.options, folders, image_id(name))


class DockerEnclosure:
    """See `Enclosure`."""

    python: ClassVar[str] = _PYTHON
    passes_descriptors: ClassVar[bool] = False

    def __init__(self, options: SandboxOptions, folders: Folders, image: str) -> None:
        self._options = options
        self._folders = folders
        self._image = image
        self._reached: dict[str, int] = {}
        self._made: list[str] = []
        self._doors: list[Door] = []
        make_home(folders.scratch / "home")

    def seen(self, path: Path) -> Path:
        """See `Enclosure.seen`."""
        workspace = self._folders.workspace
        if workspace is not None and path.is_relative_to(workspace):
            return WORKSPACE / path.relative_to(workspace)
        if path.is_relative_to(self._folders.scratch):
            return SCRATCH / path.relative_to(self._folders.scratch)
        return path

    def environment(self, declared: Mapping[str, str]) -> dict[str, str]:
        """See `Enclosure.environment`."""
        return clean_environment(HOME, {"PATH": _PATH, "TMPDIR": "/tmp", **declared})  # noqa: S108 - the sandbox's own

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
        """See `Enclosure.run`."""
        if pass_fds:
            raise ProgramError(f"{argv[0]}: descriptors cannot be passed into a container")
        told = self._folders.scratch / f".left-{len(self._made)}"
        name = await self._create([*telling(self.seen(told)), *argv], cwd, env, read, with_input=stdin is not None)
        over = stop or asyncio.get_running_loop().create_future()
        workspace = self._folders.workspace
        folders = [self._folders.scratch, *([workspace] if workspace is not None else [])]
        bounds = Bounds(folders=folders, disk_bytes=self._options.disk)
        watching = asyncio.ensure_future(watch(bounds, lambda: None, over))
        try:
            child = await run_child(
                _attach(name, with_input=stdin is not None),
                cwd="/",
                env=_client_environment(),
                stdin=stdin,
                timeout_s=timeout_s,
                output_bytes=output_bytes,
                stop=over,
                grace_s=grace_s,
                on_start=on_start,
                terminate=lambda _: _ask_to_end(name),
            )
        finally:
            watching.cancel()
            await asyncio.gather(watching, return_exceptions=True)
            ended = await _finish(name)
        return self._told(child, ended, told, argv[0])

    async def launch(
        self, argv: Sequence[str], *, cwd: Path, env: Mapping[str, str], read: Sequence[Path] = ()
    ) -> Launch:
        """See `Enclosure.launch`."""
        name = await self._create(list(argv), cwd, env, read, with_input=True)
        env_here = _client_environment()
        return Launch(
            argv=_attach(name, with_input=True), cwd=Path("/"), env=env_here, terminate=lambda _: _ask_to_end(name)
        )

    async def door(self, serve: Serve) -> Door:
        """See `Enclosure.door`. The image needs a Python for it."""
        if self._options.reach == "open":
            raise InfrastructureError("sandbox docker: with network: open there is no door; use none or allowlist")
        port = _FIRST_PORT + len(self._doors)
        self._doors.append(await open_inside(serve, self._folders.scratch, SCRATCH, port, python=_PYTHON))
        return self._doors[-1]

    def findings(self) -> dict[str, Any]:
        """See `Enclosure.findings`. `image` is the ID that was resolved."""
        found: dict[str, Any] = {
            "kind": "docker",
            "image": self._image,
            "network": self._options.reach,
            "limits": {"memory": "kernel", "pids": "kernel", "disk": "watched"},
        }
        if self._reached:
            found["reached"] = self._reached
        return found

    async def close(self) -> None:
        """See `Enclosure.close`."""
        while self._doors:
            await self._doors.pop().close()
        while self._made:
            await _finish(self._made.pop())

    async def _create(
        self, argv: Sequence[str], cwd: Path, env: Mapping[str, str], read: Sequence[Path], *, with_input: bool
    ) -> str:
        if not cwd.is_dir():  # noqa: ASYNC240 - one look
            raise ProgramError(f"{argv[0]}: its working folder does not exist")
        name = f"mst-{os.getpid()}-{secrets.token_hex(6)}"
        # Before it exists: should this be cancelled, closing looks for it all the same.
        self._made.append(name)
        settings = self._settings(read)
        making = asyncio.to_thread(
            _make, self._image, list(argv), name=name, env=dict(env), cwd=self.seen(cwd), with_input=with_input,
            settings=settings,
        )  # fmt: skip
        await asyncio.shield(asyncio.ensure_future(making))
        return name

    def _settings(self, read: Sequence[Path]) -> dict[str, Any]:
        options = self._options
        scratch, workspace = self._folders.scratch, self._folders.workspace
        mounts = {str(scratch): str(SCRATCH), str(scratch / "home" / "tmp"): "/tmp"}  # noqa: S108 - the sandbox's own
        if workspace is not None:
            mounts[str(workspace)] = str(WORKSPACE)
        visible = [*map(Path, options.read), *read, *([CHILD] if self._doors else [])]
        volumes = [f"{here}:{inside}:rw" for here, inside in mounts.items()]
        volumes += [f"{path}:{path}:ro" for path in dict.fromkeys(visible)]
        return {
            "volumes": volumes,
            "network_mode": "bridge" if options.reach == "open" else "none",
            "mem_limit": options.memory,
            "memswap_limit": options.memory,
            "pids_limit": options.pids,
            "nano_cpus": None if options.cpus is None else int(options.cpus * 1e9),
            "shm_size": min(_SHM_BYTES, options.memory),
            "user": f"{os.getuid()}:{os.getgid()}",
        }

    def _told(self, child: ChildResult, ended: Mapping[str, Any], told: Path, name: str) -> ChildResult:
        left = names_left(told)
        words = child.stderr.decode(errors="replace")
        if child.exit_code in _MISSING_CODES and (not ended.get("started") or _is_missing(words, name)):
            raise ProgramError(f"{name}: no such program in the image, or not executable: {words.strip()[-300:]}")
        stopped = child.stopped
        code = int(ended.get("code", child.exit_code))
        if stopped is None and ended.get("oom"):
            stopped = "memory" if code != 0 else None
            self._reached["memory"] = self._reached.get("memory", 0) + 1
        if stopped == "disk":
            self._reached["disk"] = 1
        signalled = 128 - code if 128 < code <= 192 else code
        return ChildResult(**{**vars(child), "leftovers": left, "stopped": stopped, "exit_code": signalled})


@cache
def engine() -> DockerClient:
    """The engine of this machine, as `DOCKER_HOST` or Docker's defaults have it.

    Raises:
        InfrastructureError: the library is missing, or no engine answers.
    """
    try:
        import docker  # noqa: PLC0415 - an extra
        from docker.errors import DockerException  # noqa: PLC0415 - as above
    except ImportError as error:
        raise InfrastructureError("the package 'docker' is missing: pip install 'mst[docker]'") from error
    try:
        client = docker.from_env(timeout=_ENGINE_S)
        client.ping()
    except DockerException as error:
        raise InfrastructureError("no Docker engine answers; start it, or set DOCKER_HOST") from error
    return client


def engine_fault() -> str | None:
    """Why no engine can be used here, or None."""
    try:
        engine()
    except InfrastructureError as error:
        return f"sandbox docker: {error}"
    return None


def image_id(name: str) -> str:
    """The immutable ID of an image that is here. Nothing is fetched: what is measured is chosen beforehand.

    Raises:
        InfrastructureError: no such image here.
    """
    from docker.errors import DockerException, ImageNotFound  # noqa: PLC0415 - an extra

    try:
        return str(engine().images.get(name).id)
    except ImageNotFound as error:
        raise InfrastructureError(f"{name}: no such image here; docker pull or build it first") from error
    except DockerException as error:
        raise InfrastructureError(f"{name}: the engine does not say: {error}") from error


def reap(owner_alive: Callable[[int], bool]) -> list[str]:
    """Remove containers of processes that are gone; returns their names. Idempotent.

    Args:
        owner_alive: whether a process of this machine, by ID, still runs.
    """
    from docker.errors import DockerException  # noqa: PLC0415 - an extra

    gone = []
    for container in engine().containers.list(all=True, filters={"label": LABEL}, ignore_removed=True):
        owner = container.labels.get(LABEL, "")
        if owner.isdigit() and not owner_alive(int(owner)):
            with contextlib.suppress(DockerException):
                container.remove(force=True, v=True)
                gone.append(str(container.name))
    return gone


def _make(
    image: str,
    argv: list[str],
    *,
    name: str,
    env: dict[str, str],
    cwd: Path,
    with_input: bool,
    settings: dict[str, Any],
) -> None:
    """Create a container. Its environment goes through the engine's API: no file, no argument."""
    from docker.errors import DockerException  # noqa: PLC0415 - an extra
    from docker.types import LogConfig  # noqa: PLC0415 - as above

    try:
        engine().containers.create(
            image,
            argv,
            name=name,
            entrypoint=[],
            environment=env,
            working_dir=str(cwd),
            stdin_open=with_input,
            read_only=True,
            tmpfs={"/run": "rw,nosuid,nodev,size=16m"},
            cap_drop=["ALL"],
            security_opt=["no-new-privileges"],
            init=True,
            hostname="mst",
            labels={LABEL: str(os.getpid())},
            log_config=LogConfig(type="none"),
            **settings,
        )
    except DockerException as error:
        raise InfrastructureError(f"no container could be made: {error}") from error


async def _finish(name: str) -> dict[str, Any]:
    """How a container ended; it is removed. Cancellation does not cut it short."""
    work = asyncio.ensure_future(asyncio.to_thread(_remove, name))
    interrupted: asyncio.CancelledError | None = None
    while not work.done():
        try:
            await asyncio.shield(work)
        except asyncio.CancelledError as error:
            interrupted = error
    if interrupted is not None:
        raise interrupted
    return work.result()


def _remove(name: str) -> dict[str, Any]:
    from docker.errors import DockerException, NotFound  # noqa: PLC0415 - an extra

    try:
        container = engine().containers.get(name)
        state = container.attrs["State"]
        container.remove(force=True, v=True)
    except NotFound:
        return {}
    except DockerException as error:
        raise InfrastructureError(f"container {name} could not be removed: {error}") from error
    found = {"oom": bool(state.get("OOMKilled")), "started": not str(state.get("StartedAt", "")).startswith("0001")}
    return found if state.get("Running") else {**found, "code": int(state.get("ExitCode", 0))}


def _ask_to_end(name: str) -> None:
    """SIGTERM to everything in a container, in a thread: the loop does not wait for the engine."""
    asyncio.get_running_loop().run_in_executor(None, _signal_all, name)


def _signal_all(name: str) -> None:
    from docker.errors import DockerException  # noqa: PLC0415 - an extra

    with contextlib.suppress(DockerException):
        engine().containers.get(name).exec_run(["/bin/sh", "-c", "kill -TERM -1"], detach=True)


def _attach(name: str, *, with_input: bool) -> list[str]:
    return [str(shutil.which(_PROGRAM)), "start", "--attach", *(["--interactive"] if with_input else []), name]


def _client_environment() -> dict[str, str]:
    """Of Docker's command line alone: where the engine is."""
    passed = ("DOCKER_HOST", "DOCKER_CONTEXT", "DOCKER_CERT_PATH", "DOCKER_TLS_VERIFY", "HOME", "PATH")
    return {name: os.environ[name] for name in passed if name in os.environ}


def _is_missing(words: str, name: str) -> bool:
    return any(text in words for text in _NOT_STARTED) or (name in words and "not found" in words)
