"""What a sandbox is: it runs the programs of one trial where they can reach that trial, and nothing else."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar, Protocol

from mst.process.child import TERM_GRACE_S, ChildResult
from mst.sandboxes.door import Door, Serve
from mst.sandboxes.options import SandboxOptions
from mst.sandboxes.system import SCRATCH, WORKSPACE


@dataclass(frozen=True, kw_only=True)
class Folders:
    """The folders of one trial on this machine: all that its programs may write.

    Attributes:
        workspace: None for a trial without one.
        scratch: private; holds the home, `/tmp` and what clients put there for their programs.
    """

    workspace: Path | None
    scratch: Path

    @property
    def listed(self) -> list[Path]:
        """Those that there are."""
        return [self.scratch, *([self.workspace] if self.workspace is not None else [])]

    def inside(self, path: Path) -> Path:
        """A path as programs see it in a sandbox that has a file system of its own; outside of the folders the same."""
        if self.workspace is not None and path.is_relative_to(self.workspace):
            return WORKSPACE / path.relative_to(self.workspace)
        if path.is_relative_to(self.scratch):
            return SCRATCH / path.relative_to(self.scratch)
        return path


@dataclass(frozen=True, kw_only=True)
class Launch:
    """How to start a program on this machine so that it runs in the sandbox, for those who keep its pipes themselves.

    Attributes:
        argv, cwd, env: of the process to start here. No secret is in `argv`.
        pass_fds: descriptors that it inherits.
        started: to be called when it was started, or could not be.
        terminate: asks the programs inside to end, given the mark of the process started; None: SIGTERM
            to the group.
    """

    argv: Sequence[str]
    cwd: Path
    env: Mapping[str, str] = field(repr=False)
    pass_fds: Sequence[int] = ()
    started: Callable[[], None] = lambda: None
    terminate: Callable[[str], None] | None = None


@dataclass(frozen=True, kw_only=True)
class Beside:
    """How a program inside starts a server whose standard streams it uses.

    Attributes:
        argv, env: what it is to start.
        prefix: what must stand before its own arguments.
    """

    argv: Sequence[str]
    env: Mapping[str, str] = field(repr=False)
    prefix: Sequence[str] = ()


class Enclosure(Protocol):
    """The sandbox of one trial. Programs run in it one after another or at once; nothing lives on after its program.

    Class attributes:
        python: a Python inside: what `{{python}}` stands for.
        passes_descriptors: whether `pass_fds` of `run` may be used.
    """

    python: ClassVar[str]
    passes_descriptors: ClassVar[bool]

    def seen(self, path: Path) -> Path:
        """A path below the trial's folders as programs inside see it; other paths stay."""
        ...

    def environment(self, declared: Mapping[str, str]) -> dict[str, str]:
        """An environment from nothing: search path, home, locale, and what is declared, which wins."""
        ...

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
        """Run a program to its end, as `mst.process.child.run_child` does, and end everything that it started.

        Args:
            argv: paths in it are as seen inside.
            cwd: one of the trial's folders, or one below, as this machine has it.
            env: made by `environment`.
            stop: when it gets a result the program is ended; the result becomes `ChildResult.stopped`.
            read: further files of this machine that it needs, at their own paths.
            pass_fds: descriptors that it inherits under the same numbers, which are 10 or more.
            grace_s: between asking it to end and ending it.
            on_start: told the process ID here, of the program or of what brings it in.

        Raises:
            ProgramError: it could not be started.
        """
        ...

    async def launch(
        self,
        argv: Sequence[str],
        *,
        cwd: Path,
        env: Mapping[str, str],
        read: Sequence[Path] = (),
        image: str | None = None,
    ) -> Launch:
        """The same for a program that somebody else starts, feeds and ends; it ends with its pipes or with `close`.

        Args:
            image: of kind `docker`: another one than the trial's.
        """
        ...

    async def beside(
        self, argv: Sequence[str], *, cwd: Path, env: Mapping[str, str], image: str | None = None
    ) -> Beside:
        """A server that a program inside will start. In `docker` it runs in a container of its own, beside the program.

        Args:
            env: its own variables; there the program sees none of them.
            image: as for `launch`.

        Raises:
            InfrastructureError: no such image.
        """
        ...

    async def door(self, serve: Serve) -> Door:
        """A port that programs inside reach on their loopback, answered by `serve` here; closed with the enclosure."""
        ...

    def findings(self) -> dict[str, Any]:
        """What isolated the trial and which limits were reached, for the record's diagnostics."""
        ...

    async def close(self) -> None:
        """End and remove what is left of it. Safe to call twice; never raises for what is already gone."""
        ...


class Sandbox(Protocol):
    """One way to isolate, with its settings. Made once per variant.

    Class attributes:
        isolates: whether programs are kept from other files, the network and this machine's processes at all.
    """

    isolates: ClassVar[bool]
    options: SandboxOptions

    def faults(self) -> list[str]:
        """Why it cannot be had here, in words with the fix; empty when it works. What it may start ends at once."""
        ...

    def program_fault(self, name: str, path: str | None = None, *, image: str | None = None) -> str | None:
        """Why a program could not be started inside, or None.

        Args:
            path: a declared search path.
            image: of a server that has one of its own; only kind `docker` knows images.
        """
        ...

    def enter(self, folders: Folders, *, image: str | None = None) -> Enclosure:
        """The enclosure of one trial. `image` is the case's own.

        Raises:
            InfrastructureError: it cannot be made.
        """
        ...
