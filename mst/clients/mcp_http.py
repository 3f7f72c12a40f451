"""A session with an MCP server at a URL, over streamable HTTP.

The SDK's transport resumes the stream of one answer when the server gave it a number to resume from (twice at most);
everything else that breaks ends the session: what the server remembered of it is gone, and a trial that went on with a
fresh one would show what no user sees.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping

import httpx2
import mcp_types as types
from mcp import MCPError
from mcp.client.streamable_http import streamable_http_client

from mst.clients.mcp_session import STATUSES, Session
from mst.errors import ClientError

CONNECT_S = 10.0
REFUSED = frozenset({401, 403, 407})
ANSWERS = frozenset({types.INVALID_PARAMS, types.METHOD_NOT_FOUND})
"""Codes of errors that the protocol itself sends under an HTTP status of 400 or 404."""


class RemoteServer(Session):
    """A session with a server that others run. Stopping it ends the session, not the server.

    Args:
        headers: sent with every request; they may hold secrets and are shown nowhere.
        message_bytes: bound of one message of the server's.
    """

    def __init__(self, *, label: str, url: str, headers: Mapping[str, str], message_bytes: int) -> None:
        super().__init__(label=label)
        self._url = url
        self._shown = url.partition("?")[0]
        self._headers = dict(headers)
        self._message_bytes = message_bytes
        self._why: str | None = None
        self._statuses: list[int] = []

    async def _live(self) -> None:
        # A call has no bound here: who calls has one over everything.
        timeout = httpx2.Timeout(None, connect=CONNECT_S)
        hooks = {"response": [self._seen]}
        try:
            async with (
                httpx2.AsyncClient(headers=self._headers, timeout=timeout, event_hooks=hooks) as client,
                streamable_http_client(self._url, http_client=client, max_sse_event_size=self._message_bytes) as (
                    incoming,
                    outgoing,
                ),
            ):
                await self._hold(incoming, outgoing)
        except BaseExceptionGroup as group:
            # The transport's task group: one of its requests could not be sent or read.
            self._why = _in_words(group)
            if not self._ready.done():
                self._ready.set_exception(ClientError(self._why))
        finally:
            self._gone.set()

    async def _seen(self, response: httpx2.Response) -> None:
        self._statuses = [*self._statuses[-9:], response.status_code]
        statuses = STATUSES.get()
        if statuses is not None:
            statuses.append(response.status_code)
        if "text/event-stream" not in response.headers.get("content-type", "") and isinstance(
            response.stream, httpx2.AsyncByteStream
        ):
            response.stream = _Bounded(response.stream, self._message_bytes)

    def _is_lost(self, error: MCPError, statuses: list[int]) -> bool:
        failed = [status for status in statuses if status >= 400]
        if failed and error.code not in ANSWERS:
            self._why = _of_status(failed[-1])
        elif error.code == types.CONNECTION_CLOSED and self._why is None:
            self._why = error.message
        return self._why is not None

    def _why_not_ready(self) -> str:
        failed = [status for status in self._statuses if status >= 400]
        if failed:
            return f"{self._shown}: {_of_status(failed[-1])}"
        said = super()._why_not_ready()
        return f"{self._shown}: {said}"

    def _tail(self) -> str:
        return f": {self._why}" if self._why is not None and self._ready.done() and not self._ready.exception() else ""


class _Bounded(httpx2.AsyncByteStream):
    """A body that ends with an error when it is too long. Bounds of events are the transport's."""

    def __init__(self, stream: httpx2.AsyncByteStream, limit: int) -> None:
        self._stream = stream
        self._limit = limit

    async def __aiter__(self) -> AsyncIterator[bytes]:
        left = self._limit
        async for piece in self._stream:
            left -= len(piece)
            if left < 0:
                raise httpx2.ReadError(f"an answer of more than {self._limit} bytes")
            yield piece

    async def aclose(self) -> None:
        await self._stream.aclose()


def _of_status(status: int) -> str:
    if status in REFUSED:
        return f"HTTP {status}: the server refused the credentials; see its headers"
    if status == 404:
        return "HTTP 404: there is no MCP server at this URL, or it no longer knows this session"
    return f"HTTP {status}"


def _in_words(group: BaseExceptionGroup[BaseException]) -> str:
    """The first cause in a transport's errors."""
    cause: BaseException = group
    while isinstance(cause, BaseExceptionGroup):
        found = [one for one in cause.exceptions if not isinstance(one, asyncio.CancelledError)]
        cause = (found or list(cause.exceptions))[0]
    if isinstance(cause, httpx2.ConnectError):
        return "no connection: nobody listens there, or the name is not known"
    if isinstance(cause, httpx2.TimeoutException):
        return f"no connection within {CONNECT_S:g} s"
    if isinstance(cause, httpx2.TransportError):
        return f"the connection broke: {str(cause) or type(cause).__name__}"
    return f"{type(cause).__name__}: {cause}"
