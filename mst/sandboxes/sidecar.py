"""A program that runs beside a trial's, and that the trial's reaches as if it had started it itself.

What the trial starts is a relay to a door (`relay_child.py`). Each connection of the door starts the program, in a
container of its own; so its secrets and its files are out of the trial's reach.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from pathlib import Path

from mst.errors import InfrastructureError, ProgramError
from mst.sandboxes import relay_child
from mst.sandboxes.contract import Launch
from mst.sandboxes.door import pass_on

RELAY = Path(relay_child.__file__)
STARTS_MAX = 32
"""Of one program in one trial."""
AT_ONCE = 4
_LAST_WORDS_S = 5.0


@dataclass(kw_only=True)
class Sidecar:
    """One program; `serve` answers one connection of its door.

    Attributes:
        launch: makes a container and tells how to start it.
        remove: ends and removes what `launch` made.
        failed: why it could not be started, the last words only.
    """

    launch: Callable[[], Awaitable[tuple[str, Launch]]]
    remove: Callable[[str], Awaitable[None]]
    starts: int = 0
    failed: str | None = None
    _serving: set[asyncio.Task[None]] = field(default_factory=set)

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Start the program and pass bytes until it ends. A program that asks for too many gets none."""
        task = asyncio.current_task()
        assert task is not None
        try:
            if self.starts < STARTS_MAX and len(self._serving) < AT_ONCE:
                self.starts += 1
                self._serving.add(task)
                await self._serve(reader, writer)
        except (InfrastructureError, ProgramError, OSError) as error:
            self.failed = str(error)
        finally:
            self._serving.discard(task)
            writer.close()

    async def close(self) -> None:
        """End all that runs. Safe to call twice."""
        serving = list(self._serving)
        for task in serving:
            task.cancel()
        await asyncio.gather(*serving, return_exceptions=True)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        name, launch = await self.launch()
        try:
            process = await asyncio.create_subprocess_exec(
                *launch.argv,
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.DEVNULL,
                cwd=str(launch.cwd),
                env=dict(launch.env),
                start_new_session=True,
            )
            assert process.stdin is not None
            assert process.stdout is not None
            feeding = asyncio.ensure_future(pass_on(reader, process.stdin))
            reading = asyncio.ensure_future(pass_on(process.stdout, writer))
            try:
                await asyncio.wait({feeding, reading}, return_when=asyncio.FIRST_COMPLETED)
                # When the trial has closed its input, the program may still say something, but not stay.
                await asyncio.wait({reading}, timeout=_LAST_WORDS_S)
            finally:
                for half in (feeding, reading):
                    half.cancel()
                await asyncio.gather(feeding, reading, return_exceptions=True)
                await self.remove(name)
                await process.wait()
        finally:
            await self.remove(name)
