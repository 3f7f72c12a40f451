"""One running MCP server over stdio: the SDK speaks the protocol, the process is ours to bound and to end.

The SDK's own way of starting servers passes this user's environment on and reaches only the server's group; here a
server gets the same clean environment and the same end as every other program.
"""

from __future__ import annotations

import asyncio
import signal
import time
from contextlib import suppress

import anyio
import mcp_types as types
from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream
from mcp import MCPError
from mcp.shared.message import SessionMessage

from mst.clients.mcp_session import Session
from mst.errors import ClientError
from mst.process.group import MARK, new_mark, signal_group, sweep
from mst.process.lastwords import last_words
from mst.sandboxes.contract import Launch

_STOP_S = 2.0
_TAIL_BYTES = 4096
_CHUNK_BYTES = 64 * 1024


class Server(Session):
    """A server process with a session; see `Session`."""

    def __init__(self, *, label: str, launch: Launch, line_bytes: int) -> None:
        super().__init__(label=label)
        self._launch = launch
        self._mark = new_mark()
        self._line_bytes = line_bytes
        self._process: asyncio.subprocess.Process | None = None
        self._errors = bytearray()

    async def _live(self) -> None:
        """The server's life, from its start to its end."""
        try:
            self._process = await asyncio.create_subprocess_exec(
                *self._launch.argv,
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.PIPE,
                cwd=str(self._launch.cwd),
                env={MARK: self._mark, **self._launch.env},
                pass_fds=tuple(self._launch.pass_fds),
                start_new_session=True,
                limit=_CHUNK_BYTES,
            )
        except (OSError, ValueError) as error:
            reason = error.strerror if isinstance(error, OSError) else "an argument holds a NUL byte"
            self._ready.set_exception(ClientError(f"{self._launch.argv[0]}: could not be started: {reason}"))
            return
        finally:
            self._launch.started()
        try:
            await self._talk(self._process)
        finally:
            self._gone.set()
            await self._end(self._process)

    async def _talk(self, process: asyncio.subprocess.Process) -> None:
        incoming_in, incoming = anyio.create_memory_object_stream[SessionMessage | Exception](0)
        outgoing, outgoing_out = anyio.create_memory_object_stream[SessionMessage](0)
        tasks = [
            asyncio.create_task(self._read(process, incoming_in)),
            asyncio.create_task(_write(process, outgoing_out)),
            asyncio.create_task(self._keep_errors(process)),
        ]
        try:
            await self._hold(incoming, outgoing)
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            for stream in (incoming_in, incoming, outgoing, outgoing_out):
                stream.close()

    def _is_lost(self, error: MCPError, statuses: list[int]) -> bool:
        # The code alone does not tell: servers use the same number for errors of their own; `_gone` does.
        return False

    async def _read(
        self, process: asyncio.subprocess.Process, into: MemoryObjectSendStream[SessionMessage | Exception]
    ) -> None:
        assert process.stdout is not None
        buffer = bytearray()
        with suppress(anyio.BrokenResourceError, anyio.ClosedResourceError, ConnectionError):
            while piece := await process.stdout.read(_CHUNK_BYTES):
                buffer += piece
                if len(buffer) > self._line_bytes:
                    # A line without end must not fill the memory.
                    self._errors += f"\n(a message of more than {self._line_bytes} bytes)".encode()
                    break
                *lines, rest = buffer.split(b"\n")
                buffer = bytearray(rest)
                for line in lines:
                    if line.strip():
                        await into.send(_parse(bytes(line)))
        into.close()
        self._gone.set()

    async def _keep_errors(self, process: asyncio.subprocess.Process) -> None:
        assert process.stderr is not None
        while piece := await process.stderr.read(_CHUNK_BYTES):
            self._errors += piece
            del self._errors[:-_TAIL_BYTES]

    async def _end(self, process: asyncio.subprocess.Process) -> None:
        """Close its input, as the protocol has it, then ask, then kill; at last everything that it started."""
        assert process.stdin is not None
        process.stdin.close()
        try:
            await _returned(process, _STOP_S)
            if process.returncode is None:
                if self._launch.terminate is None:
                    signal_group(process.pid, signal.SIGTERM)
                else:
                    self._launch.terminate(self._mark)
                await _returned(process, _STOP_S)
        finally:
            sweep(process.pid, self._mark)
            await _returned(process, _STOP_S)
            # Public API has no way to close the pipes that a stopped server leaves.
            process._transport.close()  # type: ignore[attr-defined]  # noqa: SLF001 - as above

    def _tail(self) -> str:
        text = last_words(bytes(self._errors))
        return f"; its last words: {text}" if text else ""


async def _write(process: asyncio.subprocess.Process, source: MemoryObjectReceiveStream[SessionMessage]) -> None:
    assert process.stdin is not None
    with suppress(ConnectionError, anyio.EndOfStream, anyio.ClosedResourceError):
        while True:
            message = (await source.receive()).message
            process.stdin.write(message.model_dump_json(by_alias=True, exclude_unset=True).encode() + b"\n")
            await process.stdin.drain()


async def _returned(process: asyncio.subprocess.Process, within_s: float) -> None:
    """Until the process has ended. Not `process.wait()`, which also waits for pipes that grandchildren hold."""
    deadline = time.monotonic() + within_s
    pace_s = 0.001
    while process.returncode is None and time.monotonic() < deadline:
        await asyncio.sleep(pace_s)
        pace_s = min(0.05, pace_s * 2)


def _parse(line: bytes) -> SessionMessage | Exception:
    try:
        return SessionMessage(types.jsonrpc_message_adapter.validate_json(line, by_name=False))
    except ValueError as error:
        # Stray output on stdout: the session logs it and goes on.
        return error
