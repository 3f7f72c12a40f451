"""The private line between this process and a Python grader in its own: two ways to lay it, one way to talk."""

from __future__ import annotations

import asyncio
import fcntl
import socket
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from mst.sandboxes.contract import Enclosure
from mst.sandboxes.door import listen_in

LINE_BYTES = 4 * 1024**2
"""Bound of one message of a grader: its result, a judgment, a question."""
_LOWEST_FD = 10
_NAME = ".line"

Streams = tuple[asyncio.StreamReader, asyncio.StreamWriter]


class PassedLine:
    """A pair of connected sockets, one of which the grader inherits.

    Attributes:
        told: the argument by which the grader finds its end.
        pass_fds: what it inherits.
        connected: whether somebody is, or was, at the other end.
    """

    connected = True

    def __init__(self) -> None:
        self._ours, first = socket.socketpair()
        with first:
            # A number that shells leave alone.
            number = fcntl.fcntl(first.fileno(), fcntl.F_DUPFD_CLOEXEC, _LOWEST_FD)
        self._theirs = socket.socket(fileno=number)
        self._writer: asyncio.StreamWriter | None = None
        self.told = str(number)
        self.pass_fds: Sequence[int] = [number]

    async def open(self) -> Streams:
        """Our end."""
        reader, self._writer = await asyncio.open_connection(sock=self._ours, limit=LINE_BYTES)
        return reader, self._writer

    def started(self, _: int) -> None:
        """The grader has its end: only its death may keep this from being seen as closed."""
        self._theirs.close()

    def close(self) -> None:
        """Both ends. Safe to call twice."""
        self._theirs.close()
        if self._writer is not None:
            self._writer.close()
        else:
            self._ours.close()


class NamedLine:
    """A UNIX socket in the call's folder, where no descriptor can be passed: into a container.

    The first that connects is the grader's process, before it loads any code of the grader's: nothing else runs on
    this folder by then. Then the name is gone, and nobody else can be at the other end. Attributes: see `PassedLine`.
    """

    pass_fds: Sequence[int] = ()

    def __init__(self, folder: Path, inside: Enclosure) -> None:
        self._place = folder / _NAME
        self._listening = listen_in(folder, _NAME)
        self._writer: asyncio.StreamWriter | None = None
        self.told = str(inside.seen(self._place))
        self.connected = False

    async def open(self) -> Streams:
        """Wait for the grader."""
        connection, _ = await asyncio.get_running_loop().sock_accept(self._listening)
        self.connected = True
        self._stop_listening()
        reader, self._writer = await asyncio.open_connection(sock=connection, limit=LINE_BYTES)
        return reader, self._writer

    def started(self, _: int) -> None:
        """Nothing was passed, so nothing is to be closed."""

    def close(self) -> None:
        """Our end, and the name. Safe to call twice."""
        self._stop_listening()
        if self._writer is not None:
            self._writer.close()

    def _stop_listening(self) -> None:
        self._listening.close()
        with suppress(FileNotFoundError):
            self._place.unlink()
