"""One running MCP server over stdio: the SDK speaks the protocol, the process is ours to bound and to end.

The SDK's own way of starting servers passes this user's environment on and reaches only the server's group; here a
server gets the same clean environment and the same end as every other program.
"""

from __future__ import annotations

import asyncio
import json
import signal
import time
from contextlib import suppress
from datetime import UTC, datetime
from typing import Any

import anyio
import mcp_types as types
from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream
from mcp import ClientSession, MCPError
from mcp.shared.message import SessionMessage

from mst.errors import ClientError
from mst.model.transcript import Event
from mst.process.group import MARK, new_mark, signal_group, sweep
from mst.sandboxes.contract import Launch

_STOP_S = 2.0
_TAIL_BYTES = 4096
_CHUNK_BYTES = 64 * 1024


class Server:
    """A server process with a session. `start`, any number of `call`s (also at once), `stop`.

    The session lives in a task of its own, since the SDK wants it opened and closed by the same task, while a shared
    server is used by many.
    """

    def __init__(self, *, label: str, launch: Launch, line_bytes: int) -> None:
        self.label = label
        self._launch = launch
        self._mark = new_mark()
        self._line_bytes = line_bytes
        self._task: asyncio.Task[None] | None = None
        self._stopping = asyncio.Event()
        self._ready: asyncio.Future[ClientSession] = asyncio.get_running_loop().create_future()
        self._process: asyncio.subprocess.Process | None = None
        self._errors = bytearray()
        self._gone = asyncio.Event()

    @property
    def alive(self) -> bool:
        """Whether it still answers, as far as is known."""
        return self._task is not None and not self._task.done() and not self._gone.is_set()

    async def start(self, *, timeout_s: float) -> None:
        """Start the process and shake hands.

        Raises:
            ClientError: `environment`: it can't be started, ended, or did not answer in time. Nothing is left running.
        """
        self._task = asyncio.create_task(self._live(), name=f"mcp-{self.label}")
        try:
            either: list[asyncio.Future[Any]] = [self._ready, self._task]
            done, _ = await asyncio.wait(either, timeout=timeout_s, return_when=asyncio.FIRST_COMPLETED)
            if self._ready.done() and self._ready.exception() is None:
                return
        except asyncio.CancelledError:
            await self.stop()
            raise
        reason = self._why_not_ready() if done else f"did not answer within {timeout_s:g} s"
        await self.stop()
        raise ClientError(f"server {self.label}: {reason}{self._tail()}")

    async def call(self, tool: str, arguments: dict[str, Any], *, number: int = 0) -> Event:
        """Call a tool. What the server answers is the event, errors of the tool and of the protocol included.

        Raises:
            ClientError: `environment`: the server ended, or said what is not the protocol.
        """
        session = self._ready.result()
        began = time.perf_counter()
        at = datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
        try:
            output, is_error = await self._ask(session, tool, arguments)
        except MCPError as error:
            # The code alone does not tell: servers use the same number for errors of their own.
            if error.code == types.CONNECTION_CLOSED and self._gone.is_set():
                raise ClientError(f"server {self.label} ended during {tool}{self._tail()}") from error
            output, is_error = error.message, True
        except (ValueError, anyio.BrokenResourceError, anyio.ClosedResourceError) as error:
            what = "ended" if self._gone.is_set() else "sent what is not MCP"
            raise ClientError(f"server {self.label} {what} during {tool}{self._tail()}") from error
        return Event(
            kind="tool_call",
            source="mcp",
            name=tool,
            server=self.label,
            arguments=arguments,
            output=output,
            is_error=is_error,
            id=str(number),
            duration_ms=(time.perf_counter() - began) * 1000,
            started_at=at,
        )

    async def stop(self) -> None:
        """End the session and the process with everything it started. Safe to call twice; cancellation waits for it."""
        self._stopping.set()
        if self._task is None:
            return
        interrupted: asyncio.CancelledError | None = None
        while not self._task.done():
            try:
                await asyncio.wait({self._task})
            except asyncio.CancelledError as error:
                interrupted = error
        if not self._task.cancelled():
            # Already told to whoever waited for the start or a call.
            self._task.exception()
        if interrupted is not None:
            raise interrupted

    async def _ask(self, session: ClientSession, tool: str, arguments: dict[str, Any]) -> tuple[str, bool]:
        request = types.CallToolRequest(params=types.CallToolRequestParams(name=tool, arguments=arguments))
        # Not `call_tool`: that lists all tools first and throws away answers that don't fit their schema.
        result = await session.send_request(request, types.CallToolResult)
        return _text_of(result), result.is_error

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
            async with ClientSession(incoming, outgoing) as session:
                handshake = asyncio.ensure_future(session.initialize())
                try:
                    await self._first(handshake)
                    if handshake.done():
                        handshake.result()
                        self._ready.set_result(session)
                        await self._first()
                except (MCPError, ValueError) as error:
                    if not self._ready.done():
                        self._ready.set_exception(ClientError(f"the handshake failed: {error}"))
                finally:
                    handshake.cancel()
                    await asyncio.gather(handshake, return_exceptions=True)
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            for stream in (incoming_in, incoming, outgoing, outgoing_out):
                stream.close()

    async def _first(self, *others: asyncio.Future[Any]) -> None:
        """Until somebody wants it to stop, the server is gone, or one of the others is done."""
        waits = [asyncio.ensure_future(self._stopping.wait()), asyncio.ensure_future(self._gone.wait())]
        try:
            await asyncio.wait({*waits, *others}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for wait in waits:
                wait.cancel()

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

    def _why_not_ready(self) -> str:
        if self._ready.done() and (error := self._ready.exception()) is not None:
            return str(error)
        return "ended before it answered"

    def _tail(self) -> str:
        text = self._errors.decode(errors="replace").strip()
        return f"; its last words: {text[-500:]}" if text else ""


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


def _text_of(result: types.CallToolResult) -> str:
    parts = [_text_of_block(block) for block in result.content]
    if not parts and result.structured_content is not None:
        return json.dumps(result.structured_content, ensure_ascii=False)
    return "\n".join(parts)


def _text_of_block(block: types.ContentBlock) -> str:
    if isinstance(block, types.TextContent):
        return block.text
    if isinstance(block, types.ImageContent | types.AudioContent):
        return f"[{block.type} {block.mime_type}, {len(block.data)} base64 characters]"
    if isinstance(block, types.ResourceLink):
        return f"[resource {block.uri}]"
    text = getattr(block.resource, "text", None)
    return text if isinstance(text, str) else f"[resource {block.resource.uri}]"
