"""Docker: a container for each program of a trial; of this machine it has the trial's folders and nothing else."""

from __future__ import annotations

import asyncio
import os
import secrets
import shutil
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any, ClassVar

from mst.errors import InfrastructureError, ProgramError
from mst.process.child import TERM_GRACE_S, ChildResult, run_child
from mst.process.environment import clean_environment, make_home
from mst.process.finishing import in_thread
from mst.process.lastwords import last_words
from mst.sandboxes import egress
from mst.sandboxes.containers import ask_to_end, engine, image_id, make, reap, remove, said_by, search_path
from mst.sandboxes.contract import Beside, Folders, Launch
from mst.sandboxes.door import CHILD, Door, Serve, open_inside
from mst.sandboxes.egress import Egress
from mst.sandboxes.handing import hand_over, user
from mst.sandboxes.options import SandboxOptions
from mst.sandboxes.sidecar import RELAY, Sidecar
from mst.sandboxes.system import HOME, SCRATCH, WORKSPACE
from mst.sandboxes.telling import names_left, telling
from mst.sandboxes.watch import Bounds, watch

_PROGRAM = "docker"
_PYTHON = "python3"
_FIRST_PORT = 8600
_SHM_BYTES = 256 * 1024 * 1024
_MISSING_CODES = {126, 127}
_NOT_STARTED = ("executable file not found", "no such file or directory: unknown", "permission denied: unknown")


class DockerSandbox:
    """See `Sandbox`. The engine must be on this machine: the trial's folders are mounted."""

    isolates: ClassVar[bool] = True

    def __init__(self, options: SandboxOptions) -> None:
        self.options = options

    def faults(self) -> list[str]:
        """No engine, no client program, no such image here, or no proxy for an allowlist.

        What an mst that was killed left in the engine is removed, once a process.
        """
        faults: list[str] = []
        if shutil.which(_PROGRAM) is None:
            faults.append("sandbox docker: the program 'docker' is not on PATH; install Docker's command line")
        try:
            _reap_once()
        except InfrastructureError as error:
            return [*faults, f"sandbox docker: {error}"]
        if self.options.image is not None:
            try:
                image_id(self.options.image)
            except InfrastructureError as error:
                return [*faults, f"sandbox.image: {error}"]
        if self.options.reach == "allowlist":
            faults += egress.proxy_faults(self.options.proxy)
            if (fault := self.program_fault(_PYTHON)) is not None:
                faults.append(f"sandbox.network: allowlist needs a Python in the image: {fault}")
        return faults

    def program_fault(self, name: str, path: str | None = None, *, image: str | None = None) -> str | None:
        """See `Sandbox.program_fault`. Of a case's own image nothing is said: that is told when it is started."""
        where = image or self.options.image
        if where is None or name.startswith((f"{WORKSPACE}/", f"{SCRATCH}/")):
            return None
        try:
            image = image_id(where)
            return _missing_in(image, name, path or search_path(image))
        except InfrastructureError as error:
            return str(error)

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
        self._path = search_path(image)
        self._reached: dict[str, int] = {}
        self._made: list[str] = []
        self._doors: list[Door] = []
        self._egress: Egress | None = None
        self._sidecars: list[Sidecar] = []
        self._images: set[str] = set()
        self._way_out: asyncio.Future[Door] | None = None
        self._told_by_proxy: dict[str, Any] = {}
        make_home(folders.scratch / "home")

    def seen(self, path: Path) -> Path:
        """See `Enclosure.seen`."""
        return self._folders.inside(path)

    def environment(self, declared: Mapping[str, str]) -> dict[str, str]:
        """See `Enclosure.environment`."""
        given = egress.proxy_variables() if self._options.reach == "allowlist" else {}
        return clean_environment(HOME, {"PATH": self._path, "TMPDIR": "/tmp", **given, **declared})  # noqa: S108 - the sandbox's own

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
        whole = [*telling(self.seen(told)), *await self._prefix(), *argv]
        name = await self._create(whole, cwd, env, read, with_input=stdin is not None)
        over = stop or asyncio.get_running_loop().create_future()
        bounds = Bounds(folders=self._folders.listed, disk_bytes=self._options.disk)
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
        self,
        argv: Sequence[str],
        *,
        cwd: Path,
        env: Mapping[str, str],
        read: Sequence[Path] = (),
        image: str | None = None,
    ) -> Launch:
        """See `Enclosure.launch`."""
        return (await self._launch(argv, cwd, env, read, image))[1]

    async def beside(
        self, argv: Sequence[str], *, cwd: Path, env: Mapping[str, str], image: str | None = None
    ) -> Beside:
        """See `Enclosure.beside`. The trial's image needs a Python for the relay."""
        if image is not None:
            await asyncio.to_thread(image_id, image)
        whole = self.environment(env)
        sidecar = Sidecar(launch=lambda: self._launch(argv, cwd, whole, (), image), remove=self._drop)
        self._sidecars.append(sidecar)
        door = await self.door(sidecar.serve)
        relay = [_PYTHON, "-I", "-S", str(RELAY), str(door.port)]
        return Beside(argv=relay, env={}, prefix=door.prefix)

    async def door(self, serve: Serve) -> Door:
        """See `Enclosure.door`. The image needs a Python. Every container has a loopback of its own."""
        return await self._open(serve, _FIRST_PORT + len(self._doors))

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
        if self._images:
            found["serverImages"] = sorted(self._images)
        if failed := [sidecar.failed for sidecar in self._sidecars if sidecar.failed is not None]:
            found["serversFailed"] = failed
        if self._options.reach == "allowlist":
            found["proxy"] = self._told_by_proxy
        return found

    async def close(self) -> None:
        """See `Enclosure.close`."""
        while self._doors:
            await self._doors.pop().close()
        for sidecar in self._sidecars:
            await sidecar.close()
        if self._way_out is not None:
            await asyncio.wait({self._way_out})
        if self._egress is not None:
            self._told_by_proxy = await asyncio.to_thread(self._egress.told)
            self._egress = None
        while self._made:
            await _finish(self._made.pop())

    async def _open(self, serve: Serve, port: int) -> Door:
        self._doors.append(await open_inside(serve, self._folders.scratch, SCRATCH, port, python=_PYTHON))
        return self._doors[-1]

    async def _prefix(self) -> Sequence[str]:
        """What must stand before a program so that it has its way out; the proxy starts with the first one."""
        if self._options.reach != "allowlist":
            return []
        if self._way_out is None:
            self._way_out = asyncio.ensure_future(self._open_way_out())
        return (await asyncio.shield(self._way_out)).prefix

    async def _open_way_out(self) -> Door:
        proxy = Egress(_new_name(), self._options.proxy, self._options.allow)
        self._made.append(proxy.name)
        await asyncio.to_thread(proxy.start)
        self._egress = proxy
        return await self._open(proxy.serve, egress.PORT)

    async def _launch(
        self, argv: Sequence[str], cwd: Path, env: Mapping[str, str], read: Sequence[Path], image: str | None
    ) -> tuple[str, Launch]:
        chosen = None if image is None else await asyncio.to_thread(image_id, image)
        # A server's own image need not have the Python that a way out takes.
        prefix = await self._prefix() if chosen is None else ()
        name = await self._create([*prefix, *argv], cwd, env, read, with_input=True, image=chosen)
        if chosen is not None:
            self._images.add(chosen)
        launch = Launch(
            argv=_attach(name, with_input=True),
            cwd=Path("/"),
            env=_client_environment(),
            terminate=lambda _: _ask_to_end(name),
        )
        return name, launch

    async def _drop(self, name: str) -> None:
        if name in self._made:
            self._made.remove(name)
            await _finish(name)

    async def _create(
        self,
        argv: Sequence[str],
        cwd: Path,
        env: Mapping[str, str],
        read: Sequence[Path],
        *,
        with_input: bool,
        image: str | None = None,
    ) -> str:
        if not cwd.is_dir():  # noqa: ASYNC240 - one look
            raise ProgramError(f"{argv[0]}: its working folder does not exist")
        name = _new_name()
        # Before it exists: should this be cancelled, closing looks for it all the same.
        self._made.append(name)
        await in_thread(hand_over, self._folders.listed)
        await in_thread(
            make, image or self._image, argv, name=name, env=env, cwd=str(self.seen(cwd)), with_input=with_input,
            settings=self._settings(read),
        )  # fmt: skip
        return name

    def _settings(self, read: Sequence[Path]) -> dict[str, Any]:
        options = self._options
        scratch, workspace = self._folders.scratch, self._folders.workspace
        mounts = {str(scratch): str(SCRATCH), str(scratch / "home" / "tmp"): "/tmp"}  # noqa: S108 - the sandbox's own
        if workspace is not None:
            mounts[str(workspace)] = str(WORKSPACE)
        visible = [*map(Path, options.read), *read, *([CHILD, RELAY] if self._doors else [])]
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
            "user": "{}:{}".format(*user()),
        }

    def _told(self, child: ChildResult, ended: Mapping[str, Any], told: Path, name: str) -> ChildResult:
        left = names_left(told)
        words = child.stderr.decode(errors="replace")
        if child.exit_code in _MISSING_CODES and (not ended.get("started") or _is_missing(words, name)):
            raise ProgramError(f"{name}: no such program in the image, or not executable: {last_words(words)}")
        stopped = child.stopped
        code = int(ended.get("code", child.exit_code))
        if stopped is None and ended.get("oom"):
            stopped = "memory" if code != 0 else None
            self._reached["memory"] = self._reached.get("memory", 0) + 1
        if stopped == "disk":
            self._reached["disk"] = 1
        signalled = 128 - code if 128 < code <= 192 else code
        return ChildResult(**{**vars(child), "leftovers": left, "stopped": stopped, "exit_code": signalled})


def _new_name() -> str:
    return f"mst-{os.getpid()}-{secrets.token_hex(6)}"


@cache
def _reap_once() -> None:
    engine()
    reap()


@cache
def _missing_in(image: str, name: str, path: str) -> str | None:
    try:
        looked = said_by(image, ["/bin/sh", "-c", 'PATH=$2; command -v "$1"', "sh", name, path])
    except InfrastructureError as error:
        return f"{name}: {error}"
    if looked:
        return None
    return f"{name}: no such program in the image (search path {path}); choose an image that has it"


async def _finish(name: str) -> dict[str, Any]:
    """How a container ended; it is removed."""
    return await in_thread(remove, name)


def _ask_to_end(name: str) -> None:
    """SIGTERM to everything in a container, in a thread: the loop does not wait for the engine."""
    asyncio.get_running_loop().run_in_executor(None, ask_to_end, name)


def _attach(name: str, *, with_input: bool) -> list[str]:
    return [str(shutil.which(_PROGRAM)), "start", "--attach", *(["--interactive"] if with_input else []), name]


def _client_environment() -> dict[str, str]:
    """Of Docker's command line alone: where the engine is."""
    passed = ("DOCKER_HOST", "DOCKER_CONTEXT", "DOCKER_CERT_PATH", "DOCKER_TLS_VERIFY", "HOME", "PATH")
    return {name: os.environ[name] for name in passed if name in os.environ}


def _is_missing(words: str, name: str) -> bool:
    return any(text in words for text in _NOT_STARTED) or (name in words and "not found" in words)
