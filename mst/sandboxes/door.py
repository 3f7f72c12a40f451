"""A port inside a sandbox that is answered by this process: the one way in and out that a trial is given.

Without a network of its own the sandbox still has a loopback. The first process inside opens a port there and hands
the listening socket out (`door_child.py`), so nothing has to run inside, and nothing else can be reached.
"""

from __future__ import annotations

import asyncio
import os
import socket
import sys
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from mst.sandboxes import door_child

Serve = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]
CHILD = Path(door_child.__file__)
_LIMIT_BYTES = 256 * 1024
_CHUNK_BYTES = 64 * 1024


@dataclass(kw_only=True)
class Door:
    """An open door.

    Attributes:
        port: on the loopback that programs inside see.
        prefix: arguments to put before a program's, so that the door is there when it starts.
    """

    port: int
    prefix: list[str] = field(default_factory=list)
    _waiting: asyncio.Task[None] | None = None
    _servers: list[asyncio.Server] = field(default_factory=list)
    _answering: set[asyncio.Task[None]] = field(default_factory=set)

    def answering(self, serve: Serve) -> Serve:
        """The same answers, ended when the door is closed."""

        async def one(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            task = asyncio.current_task()
            assert task is not None
            self._answering.add(task)
            try:
                await serve(reader, writer)
            except asyncio.CancelledError:
                # By `close`, which waits for it: nobody else knows of this task.
                writer.close()
            finally:
                self._answering.discard(task)

        return one

    async def close(self) -> None:
        """Answer no more; calls in progress are cut. Safe to call twice."""
        if self._waiting is not None:
            self._waiting.cancel()
            await asyncio.gather(self._waiting, return_exceptions=True)
        for server in self._servers:
            server.close()
        answering = list(self._answering)
        for task in answering:
            task.cancel()
        await asyncio.gather(*answering, return_exceptions=True)


async def open_here(serve: Serve) -> Door:
    """A door on this machine's own loopback, for programs that share its network."""
    door = Door(port=0)
    server = await asyncio.start_server(door.answering(serve), "127.0.0.1", 0, limit=_LIMIT_BYTES)
    door.port = server.sockets[0].getsockname()[1]
    door._servers.append(server)  # noqa: SLF001 - made here
    return door


async def open_inside(serve: Serve, folder: Path, seen: Path, port: int, *, python: str = sys.executable) -> Door:
    """A door on the loopback of a sandbox.

    Args:
        folder: of this trial, where programs inside can reach a socket.
        seen: the same folder as they see it.
        port: free inside.
        python: inside.
    """
    name = f".door-{port}"
    listening = listen_in(folder, name)
    prefix = [python, "-I", "-S", str(CHILD), str(seen / name), str(port), "--"]
    door = Door(port=port, prefix=prefix)
    door._waiting = asyncio.create_task(_take_over(listening, door.answering(serve), door._servers))  # noqa: SLF001 - made here
    return door


async def pass_on(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Bytes from one to the other until there are none, then the end. Never raises for what either side does."""
    with suppress(OSError):
        while piece := await reader.read(_CHUNK_BYTES):
            writer.write(piece)
            await writer.drain()
        if writer.can_write_eof():
            writer.write_eof()


def listen_in(folder: Path, name: str) -> socket.socket:
    """A UNIX socket with a name in a folder that programs inside see too; it does not block."""
    listening = socket.socket(socket.AF_UNIX)
    listening.setblocking(False)
    with suppress(FileNotFoundError):
        (folder / name).unlink()
    # The path of a UNIX socket is short, and that of a trial's folder need not be.
    place = os.open(folder, os.O_PATH | os.O_DIRECTORY)
    try:
        listening.bind(f"/proc/self/fd/{place}/{name}")
    except BaseException:
        listening.close()
        raise
    finally:
        os.close(place)
    listening.listen(4)
    return listening


async def _take_over(listening: socket.socket, serve: Serve, servers: list[asyncio.Server]) -> None:
    """Each program that starts with the prefix hands over a door of its own network."""
    loop = asyncio.get_running_loop()
    with listening:
        while True:
            connection, _ = await loop.sock_accept(listening)
            with connection:
                handed = await _receive(connection, loop)
                if handed is None:
                    continue
                servers.append(await asyncio.start_server(serve, sock=handed, limit=_LIMIT_BYTES))
                with suppress(OSError):
                    await loop.sock_sendall(connection, b"k")


async def _receive(connection: socket.socket, loop: asyncio.AbstractEventLoop) -> socket.socket | None:
    ready: asyncio.Future[None] = loop.create_future()

    def readable() -> None:
        if not ready.done():
            ready.set_result(None)

    loop.add_reader(connection, readable)
    try:
        await ready
        _, handles, _, _ = socket.recv_fds(connection, 16, 1)
    except OSError:
        return None
    finally:
        loop.remove_reader(connection)
    if not handles:
        return None
    handed = socket.socket(fileno=handles[0])
    listens = handed.family == socket.AF_INET and handed.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN)
    if not listens:
        handed.close()
        return None
    handed.setblocking(False)
    return handed
