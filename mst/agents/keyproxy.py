"""A proxy of one trial on loopback: the program gets a random token, the provider gets the key.

The key never enters the trial's processes, folders or sandbox. What goes through is counted, so that a limit of turns
or tokens ends a program while it works.
"""

from __future__ import annotations

import asyncio
import re
import secrets
import ssl
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager, nullcontext, suppress
from dataclasses import dataclass, field
from urllib.parse import urlsplit

from mst.model.case import TrialLimits
from mst.model.trial import LimitHit

_HEAD_BYTES = 64 * 1024
_BODY_BYTES = 64 * 1024 * 1024
_CHUNK_BYTES = 64 * 1024
_CONNECT_S = 30.0
_MODEL_PATHS = ("/messages", "/responses", "/chat/completions")
_USED = re.compile(rb'"(input|prompt|output|completion)_tokens"\s*:\s*(\d+)')
_INPUT = {b"input", b"prompt"}
_KEPT_BYTES = 200
_UNREACHED = 502


@dataclass(kw_only=True)
class KeyProxy:
    """See the module. One for each trial; `serve` answers one connection.

    Attributes:
        upstream: the provider's base URL.
        reached: told the name of a limit when it is reached, once.
        turn: entered for each call of the model: who waits here for its turn under a rate limit.
        turns, tokens: of answers so far.
        refused: the status of the last call of the model that the provider did not answer well; None after one that
            it did, 502 when it could not be reached.
    """

    upstream: str
    key: str = field(repr=False)
    limits: TrialLimits
    reached: Callable[[LimitHit], None]
    turn: Callable[[], AbstractAsyncContextManager[object]] = nullcontext
    token: str = field(default_factory=lambda: f"mst-{secrets.token_hex(16)}", repr=False)
    turns: int = 0
    tokens: int = 0
    refused: int | None = None

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Answer requests of one connection, one after another, until it closes."""
        try:
            # One request a connection: every client opens another when it is told that this one closes.
            await self._one(reader, writer)
        except (OSError, asyncio.IncompleteReadError, asyncio.LimitOverrunError, ValueError):
            await _refuse(writer, 400, "the request could not be read")
        finally:
            writer.close()
            with suppress(OSError):
                await writer.wait_closed()

    async def _one(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = await reader.readuntil(b"\r\n\r\n")
        if len(head) > _HEAD_BYTES:
            raise ValueError("the head is too long")
        line, *fields = head[:-4].decode("latin-1").split("\r\n")
        method, target, _ = line.split(" ", 2)
        headers = [(name, value.strip()) for name, _, value in (entry.partition(":") for entry in fields)]
        if not self._is_ours(headers):
            await _refuse(writer, 401, "unknown token")
            return
        body = await _body(reader, {name.lower(): value for name, value in headers})
        if self._is_full(target):
            self.reached("turns")
            await _refuse(writer, 403, "a limit of this trial is reached")
            return
        try:
            async with self.turn() if _is_model_call(target) else nullcontext():
                status = await self._pass_on(method, target, headers, body, writer)
        except (OSError, TimeoutError, ssl.SSLError):
            self.refused = _UNREACHED
            await _refuse(writer, _UNREACHED, "the provider cannot be reached")
            return
        self._count(target, status)

    def _is_ours(self, headers: list[tuple[str, str]]) -> bool:
        given = [value for name, value in headers if name.lower() in {"x-api-key", "authorization"}]
        return any(
            secrets.compare_digest(value.removeprefix("Bearer ").encode(), self.token.encode()) for value in given
        )

    def _is_full(self, target: str) -> bool:
        limit = self.limits.turns
        return _is_model_call(target) and limit is not None and self.turns >= limit

    def _count(self, target: str, status: int) -> None:
        if not _is_model_call(target):
            return
        self.refused = None if status == 200 else status
        if status != 200:
            return
        self.turns += 1
        if self.limits.tokens is not None and self.tokens >= self.limits.tokens:
            self.reached("tokens")

    async def _pass_on(
        self, method: str, target: str, headers: list[tuple[str, str]], body: bytes, writer: asyncio.StreamWriter
    ) -> int:
        url = urlsplit(self.upstream)
        secure = url.scheme == "https"
        port = url.port or (443 if secure else 80)
        async with asyncio.timeout(_CONNECT_S):
            up_reader, up_writer = await asyncio.open_connection(
                url.hostname, port, ssl=ssl.create_default_context() if secure else None
            )
        try:
            lines = [f"{method} {url.path.rstrip('/')}{target} HTTP/1.1", f"Host: {url.netloc.rpartition('@')[2]}"]
            lines += [f"{name}: {self._with_key(name, value)}" for name, value in headers if _goes_on(name)]
            lines += [f"Content-Length: {len(body)}", "Accept-Encoding: identity", "Connection: close", "", ""]
            up_writer.write("\r\n".join(lines).encode("latin-1") + body)
            await up_writer.drain()
            return await self._bring_back(target, up_reader, writer)
        finally:
            up_writer.close()

    def _with_key(self, name: str, value: str) -> str:
        return value.replace(self.token, self.key) if name.lower() in {"x-api-key", "authorization"} else value

    async def _bring_back(self, target: str, source: asyncio.StreamReader, writer: asyncio.StreamWriter) -> int:
        head = await source.readuntil(b"\r\n\r\n")
        status = int(head.split(b" ", 2)[1])
        kept = [
            line for line in head[:-4].split(b"\r\n") if not line.lower().startswith((b"connection:", b"keep-alive:"))
        ]
        writer.write(b"\r\n".join([*kept, b"Connection: close", b"", b""]))
        used = _Used()
        while piece := await source.read(_CHUNK_BYTES):
            if _is_model_call(target):
                used.look(piece)
            writer.write(piece)
            await writer.drain()
        self.tokens += used.total
        return status


class _Used:
    """The largest numbers of tokens that one answer speaks of: streams say them more than once, rising."""

    def __init__(self) -> None:
        self._tail = b""
        self._most = {True: 0, False: 0}

    def look(self, piece: bytes) -> None:
        data = self._tail + piece
        for found in _USED.finditer(data):
            side = found[1] in _INPUT
            self._most[side] = max(self._most[side], int(found[2]))
        self._tail = data[-_KEPT_BYTES:]

    @property
    def total(self) -> int:
        return sum(self._most.values())


def _is_model_call(target: str) -> bool:
    return target.partition("?")[0].endswith(_MODEL_PATHS)


def _goes_on(name: str) -> bool:
    return name.lower() not in {
        "host",
        "connection",
        "content-length",
        "transfer-encoding",
        "accept-encoding",
        "expect",
        "proxy-connection",
        "keep-alive",
    }


async def _body(reader: asyncio.StreamReader, headers: dict[str, str]) -> bytes:
    if "chunked" in headers.get("transfer-encoding", "").lower():
        return await _chunks(reader)
    size = int(headers.get("content-length") or 0)
    if size > _BODY_BYTES:
        raise ValueError("the body is too long")
    return await reader.readexactly(size)


async def _chunks(reader: asyncio.StreamReader) -> bytes:
    found = bytearray()
    while True:
        size = int((await reader.readline()).split(b";")[0], 16)
        if len(found) + size > _BODY_BYTES:
            raise ValueError("the body is too long")
        found += await reader.readexactly(size)
        await reader.readline()
        if size == 0:
            return bytes(found)


async def _refuse(writer: asyncio.StreamWriter, status: int, why: str) -> None:
    body = f'{{"type": "error", "error": {{"type": "mst", "message": "{why}"}}}}'.encode()
    head = f"HTTP/1.1 {status} Refused\r\nContent-Type: application/json\r\nContent-Length: {len(body)}\r\n"
    with suppress(OSError):
        writer.write(f"{head}Connection: close\r\n\r\n".encode() + body)
        await writer.drain()
