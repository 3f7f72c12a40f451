"""A session with one MCP server, whatever carries it: the handshake, calls as events, the list of tools, the end."""

from __future__ import annotations

import asyncio
import json
import time
from contextvars import ContextVar
from datetime import UTC, datetime
from typing import Any

import anyio
import mcp_types as types
from mcp import ClientSession, MCPError

from mst.errors import ClientError
from mst.model.transcript import Event
from mst.process.finishing import wait_out

MAX_TOOLS = 1000
MAX_PAGES = 100
STATUSES: ContextVar[list[int] | None] = ContextVar("statuses", default=None)
"""HTTP statuses that the call under way met; set by the call, filled by the transport, which runs in its context."""


class Session:
    """`start`, any number of `call`s (also at once), `stop`. Made in the event loop that uses it.

    The session lives in a task of its own, since the SDK wants it opened and closed by the same task, while a shared
    server is used by many. A session that was lost stays lost: what a server remembered of it is gone, so nobody
    connects again under a trial.
    """

    def __init__(self, *, label: str) -> None:
        self.label = label
        self._task: asyncio.Task[None] | None = None
        self._stopping = asyncio.Event()
        self._ready: asyncio.Future[ClientSession] = asyncio.get_running_loop().create_future()
        self._gone = asyncio.Event()

    @property
    def alive(self) -> bool:
        """Whether it still answers, as far as is known."""
        return self._task is not None and not self._task.done() and not self._gone.is_set()

    async def start(self, *, timeout_s: float) -> None:
        """Connect and shake hands.

        Raises:
            ClientError: `environment`: it can't be reached, ended, or did not answer in time. Nothing is left running.
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

    async def call(self, tool: str, arguments: dict[str, Any], *, call_id: str = "0") -> Event:
        """Call a tool. What the server answers is the event, errors of the tool and of the protocol included.

        Raises:
            ClientError: `environment`: the server ended, or said what is not the protocol.
        """
        began = time.perf_counter()
        at = datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
        request = types.CallToolRequest(params=types.CallToolRequestParams(name=tool, arguments=arguments))
        try:
            # Not `call_tool`: that lists all tools first and throws away answers that don't fit their schema.
            result = await self._request(request, types.CallToolResult, during=tool)
            output, is_error = _text_of(result), bool(result.is_error)
        except MCPError as error:
            output, is_error = error.message, True
        return Event(
            kind="tool_call",
            source="mcp",
            name=tool,
            server=self.label,
            arguments=arguments,
            output=output,
            is_error=is_error,
            id=call_id,
            duration_ms=(time.perf_counter() - began) * 1000,
            started_at=at,
        )

    async def tools(self) -> list[types.Tool]:
        """What it offers, in its order; at most 1,000.

        Raises:
            ClientError: `environment`: the server ended, or does not list its tools.
        """
        found: list[types.Tool] = []
        cursor: str | None = None
        for _ in range(MAX_PAGES):
            request = types.ListToolsRequest(params=types.PaginatedRequestParams(cursor=cursor))
            try:
                page = await self._request(request, types.ListToolsResult, during="the list of its tools")
            except MCPError as error:
                raise ClientError(f"server {self.label} does not list its tools: {error.message}") from error
            found += page.tools
            cursor = page.next_cursor
            if cursor is None or len(found) >= MAX_TOOLS:
                break
        return found[:MAX_TOOLS]

    async def stop(self) -> None:
        """End the session and what it started. Safe to call twice; cancellation waits for it."""
        self._stopping.set()
        if self._task is None:
            return
        interrupted = await wait_out(self._task)
        if not self._task.cancelled():
            # Already told to whoever waited for the start or a call.
            self._task.exception()
        if interrupted is not None:
            raise interrupted

    async def _live(self) -> None:
        """The session's life, from its start to its end: opens the streams and hands them to `_hold`."""
        raise NotImplementedError

    def _is_lost(self, error: MCPError, statuses: list[int]) -> bool:
        """Whether this error means that the server is gone, not that it answered."""
        raise NotImplementedError

    def _tail(self) -> str:
        """What is known of the server's end, to be put behind a message."""
        return ""

    async def _request(self, request: Any, answer: Any, *, during: str) -> Any:
        session = self._ready.result()
        statuses: list[int] = []
        token = STATUSES.set(statuses)
        try:
            return await session.send_request(request, answer)
        except MCPError as error:
            if self._gone.is_set() or self._is_lost(error, statuses):
                await self._settle()
                raise ClientError(f"server {self.label} ended during {during}{self._tail()}") from error
            raise
        except (ValueError, anyio.BrokenResourceError, anyio.ClosedResourceError) as error:
            what = "ended" if self._gone.is_set() else "sent what is not MCP"
            raise ClientError(f"server {self.label} {what} during {during}{self._tail()}") from error
        finally:
            STATUSES.reset(token)

    async def _settle(self) -> None:
        """Give a session that breaks down the moment that it needs to say why."""
        if self._task is not None:
            await asyncio.wait({self._task}, timeout=0.2)

    async def _hold(self, incoming: Any, outgoing: Any) -> None:
        """Shake hands over these streams, then keep the session until somebody stops it or the server is gone."""
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

    async def _first(self, *others: asyncio.Future[Any]) -> None:
        """Until somebody wants it to stop, the server is gone, or one of the others is done."""
        waits = [asyncio.ensure_future(self._stopping.wait()), asyncio.ensure_future(self._gone.wait())]
        try:
            await asyncio.wait({*waits, *others}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for wait in waits:
                wait.cancel()

    def _why_not_ready(self) -> str:
        if self._ready.done() and (error := self._ready.exception()) is not None:
            return str(error)
        return "ended before it answered"


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
