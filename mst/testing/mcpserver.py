"""A real MCP server at a URL, for tests: the SDK's own, in a process of its own on loopback, that can be killed."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from mst.testing.servers import free_ports, need_program, stop

START_S = 60.0
_PACE = threading.Event()

PROGRAM = """
import asyncio, os, sys
from mcp.server.mcpserver import Context, MCPServer

server = MCPServer("remote")

@server.tool()
def say(text: str) -> str:
    "Say it."
    return text

@server.tool()
def header(name: str, ctx: Context) -> str:
    return (ctx.headers or {}).get(name.lower(), "")

@server.tool()
def fail() -> str:
    raise ValueError("no such dish")

@server.tool()
def die() -> str:
    os._exit(3)

@server.tool()
async def hang() -> str:
    await asyncio.sleep(300)
    return ""

@server.tool()
def flood(size: int) -> str:
    return "x" * size

class Guard:
    "Lets nobody in at /locked without the key."
    def __init__(self, app): self.app = app
    async def __call__(self, scope, receive, send):
        given = dict(scope.get("headers") or []).get(b"authorization", b"").decode()
        locked = scope["type"] == "http" and scope["path"] == "/locked"
        if locked:
            scope = {**scope, "path": "/mcp", "raw_path": b"/mcp"}
        if locked and given != f"Bearer {os.environ.get('GUARD_KEY')}":
            await send({"type": "http.response.start", "status": 401, "headers": []})
            await send({"type": "http.response.body", "body": b"who are you?"})
            return
        await self.app(scope, receive, send)

import uvicorn
app = server.streamable_http_app(json_response=os.environ.get("ANSWERS") == "json")
uvicorn.run(Guard(app), host="127.0.0.1", port=int(sys.argv[1]), log_level="error")
"""


STDIO_PROGRAM = """
import os, subprocess, time
from mcp.server.mcpserver import MCPServer

server = MCPServer("contract")

@server.tool()
def say(text: str) -> str:
    return text

@server.tool()
def token() -> str:
    return os.environ["TOKEN"]

@server.tool()
def hang() -> str:
    subprocess.Popen(["sleep", "300"], start_new_session=True)
    time.sleep(300)
    return ""

server.run()
"""
"""A server over stdio for the contract of clients: it answers, tells its secret `TOKEN`, and hangs with a child."""


@dataclass
class RemoteMcp:
    """A running server.

    Attributes:
        url: where it speaks streamable HTTP.
        locked_url: the same with 401 for everybody who does not bring `GUARD_KEY` as bearer token.
        port: of it; a server that was killed can be started again on the same one.
    """

    url: str
    locked_url: str
    port: int
    process: subprocess.Popen[bytes]

    def kill(self) -> None:
        """End it at once."""
        stop(self.process, ask=False)


@contextmanager
def mcp_server_at(
    folder: Path, *, port: int | None = None, env: Mapping[str, str] | None = None, argv: Sequence[str] | None = None
) -> Iterator[RemoteMcp]:
    """A server on a free loopback port, stopped afterwards.

    Args:
        folder: where the program is put.
        port: a port of an earlier one.
        env: `GUARD_KEY`; `ANSWERS=json` for no event streams.
        argv: another server's program; `PORT` in its environment says where to listen, its path is `/mcp`.
    """
    port = port or free_ports(1)[0]
    program = folder / "remote_mcp.py"
    program.write_text(PROGRAM)
    process = subprocess.Popen(
        list(argv) if argv is not None else [sys.executable, str(program), str(port)],
        env={**os.environ, "PORT": str(port), **(env or {})},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        stdin=subprocess.DEVNULL,
        start_new_session=True,
    )
    try:
        _wait_listening(port, process)
        root = f"http://127.0.0.1:{port}"
        yield RemoteMcp(f"{root}/mcp", f"{root}/locked", port, process)
    finally:
        stop(process, ask=False)


def everything_server() -> str:
    """The program of the protocol's own reference server, from npm, in a cache folder outside the repository.

    Skips the test, or fails it where `CI` is set, when it cannot be installed.
    """
    need_program("npm", "nodejs")
    home = os.environ.get("MST_TEST_CACHE") or Path.home() / ".cache" / "mst-tests"
    cache = Path(home) / "mcp"
    program = cache / "node_modules/.bin/mcp-server-everything"
    if not program.exists():
        cache.mkdir(parents=True, exist_ok=True)
        wanted = "@modelcontextprotocol/server-everything@2026.8.31"
        done = subprocess.run(
            ["npm", "install", "--no-audit", "--no-fund", "--prefix", str(cache), wanted], check=False, timeout=300
        )
        if done.returncode:
            (pytest.fail if os.environ.get("CI") else pytest.skip)(f"{wanted} cannot be installed")
    return str(program)


def _wait_listening(port: int, process: subprocess.Popen[bytes]) -> None:
    deadline = time.monotonic() + START_S
    while time.monotonic() < deadline:
        assert process.poll() is None, f"the MCP server ended with code {process.returncode}"
        with socket.socket() as probe:
            probe.settimeout(1)
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                return
        _PACE.wait(0.05)
    raise AssertionError(f"the MCP server did not listen on port {port} within {START_S:g} s")
