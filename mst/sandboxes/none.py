"""No sandbox: programs run as this user, with a clean environment and a process group of their own, and no more."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar

from mst.process.child import TERM_GRACE_S, ChildResult, run_child
from mst.process.environment import clean_environment, make_home, program_fault
from mst.sandboxes.contract import Beside, Folders, Launch
from mst.sandboxes.door import Door, Serve, open_here
from mst.sandboxes.options import SandboxOptions


class NoSandbox:
    """See `Sandbox`. Says that it does not isolate."""

    isolates: ClassVar[bool] = False

    def __init__(self, options: SandboxOptions) -> None:
        self.options = options

    def faults(self) -> list[str]:
        """Always there."""
        return []

    def program_fault(self, name: str, path: str | None = None, *, image: str | None = None) -> str | None:
        """See `Sandbox.program_fault`."""
        if image is not None:
            return f"{name}: an image of its own needs sandbox.kind: docker"
        return program_fault(name, path)

    def enter(self, folders: Folders, *, image: str | None = None) -> OpenEnclosure:
        """See `Sandbox.enter`; there is nothing to make."""
        return OpenEnclosure(folders)


class OpenEnclosure:
    """See `Enclosure`."""

    python: ClassVar[str] = sys.executable
    passes_descriptors: ClassVar[bool] = True

    def __init__(self, folders: Folders) -> None:
        self._folders = folders
        self._doors: list[Door] = []

    def seen(self, path: Path) -> Path:
        """The same."""
        return path

    def environment(self, declared: Mapping[str, str]) -> dict[str, str]:
        """See `Enclosure.environment`."""
        return clean_environment(make_home(self._folders.scratch / "home"), declared)

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
        return await run_child(
            argv,
            cwd=cwd,
            env=env,
            stdin=stdin,
            timeout_s=timeout_s,
            output_bytes=output_bytes,
            stop=stop,
            pass_fds=pass_fds,
            grace_s=grace_s,
            on_start=on_start,
        )

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
        return Launch(argv=list(argv), cwd=cwd, env=env)

    async def door(self, serve: Serve) -> Door:
        """See `Enclosure.door`: on this machine's loopback, which every program here reaches."""
        self._doors.append(await open_here(serve))
        return self._doors[-1]

    def findings(self) -> dict[str, Any]:
        """Nothing isolates and nothing is counted, so there is nothing to tell."""
        return {}

    async def close(self) -> None:
        """Nothing outlives its program but doors."""
        while self._doors:
            await self._doors.pop().close()
