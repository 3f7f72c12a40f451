"""A model behind HTTP on loopback that answers by script: the dialects of OpenAI, Anthropic and Google.

Judges and the `llm` client are tested against it instead of a mock: what goes over the wire is what would go to a
provider, and what comes back is what providers send when they are well, slow, busy, broke or broken.
"""

from __future__ import annotations

import gzip
import json
import threading
import time
from collections import Counter, deque
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from mst.testing.modeldialects import read, said, write
from mst.testing.modellimits import AllRules, RateRule, WindowRule
from mst.testing.modelscript import Call, Reply, Script, too_many

KEPT_CALLS = 1000
KEPT_KEYS = 100
CHARACTERS_A_TOKEN = 4
MAX_REQUEST_BYTES = 16 * 1024**2


class ModelServer:
    """What the server does and has seen. Thread-safe; memory is bounded.

    Attributes:
        script: decides each answer; may be replaced at any time.
        limit, token_limit: answer 429 beyond them, with `Retry-After`.
        calls: the last 1,000 requests that the script answered.
        keys: how often each key was used; at most 100 different ones.
        statuses: answers by status.
        tokens: in and out, over all answers of status 200.
        most_at_once: the largest number of requests that were open at a time.
    """

    def __init__(self, url: str, script: Script) -> None:
        self.url = url
        self.script = script
        self.limit: RateRule | WindowRule | AllRules | None = None
        self.token_limit: RateRule | None = None
        self.calls: deque[Call] = deque(maxlen=KEPT_CALLS)
        self.keys: Counter[str] = Counter()
        self.statuses: Counter[int] = Counter()
        self.tokens: Counter[str] = Counter()
        self.most_at_once = 0
        self.first_at: float | None = None
        self.last_at: float | None = None
        self.ended = threading.Event()
        self._number = 0
        self._open = 0
        self._lock = threading.Lock()

    @property
    def openai_url(self) -> str:
        """Base URL for clients of OpenAI's dialect."""
        return f"{self.url}/v1"

    def answer(self, call: Call) -> Reply:
        """Count a request and decide about it."""
        with self._lock:
            call = replace(call, number=self._number)
            self._number += 1
            if call.key in self.keys or len(self.keys) < KEPT_KEYS:
                self.keys[call.key] += 1
            now = time.monotonic()
            self.first_at = now if self.first_at is None else self.first_at
            self.last_at = now
            wait_s = self._refused_for_s(call, now)
            if wait_s > 0:
                return too_many(wait_s)
            self.calls.append(call)
            return self.script(call)

    def opened(self) -> None:
        """A request came in."""
        with self._lock:
            self._open += 1
            self.most_at_once = max(self.most_at_once, self._open)

    def closed(self, status: int, used: tuple[int, int]) -> None:
        """A request was answered."""
        with self._lock:
            self._open -= 1
            self.statuses[status] += 1
            if status == 200:
                self.tokens.update({"in": used[0], "out": used[1]})

    def _refused_for_s(self, call: Call, now: float) -> float:
        waits = [self.limit.take(1, now)] if self.limit is not None else []
        if self.token_limit is not None:
            waits.append(self.token_limit.take(tokens_of(call.system + call.prompt), now))
        return max(waits, default=0.0)


def tokens_of(text: str) -> int:
    """Tokens as this server counts them: a quarter of the characters, rounded up."""
    return -(-len(text) // CHARACTERS_A_TOKEN)


@contextmanager
def model_server(script: Script | Reply, *, host: str = "127.0.0.1") -> Iterator[ModelServer]:
    """A model server on a free port of loopback, or of another address; stopped afterwards, what stalls is let go."""
    server = _Server(host, script if callable(script) else lambda _call: script)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
    thread.start()
    try:
        yield server.model
    finally:
        server.model.ended.set()
        server.shutdown()
        server.server_close()
        thread.join(10)


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 512  # judges come in crowds; a refused connection would be a fault of the test's

    def __init__(self, host: str, script: Script) -> None:
        super().__init__((host, 0), _Handler)
        self.model = ModelServer(f"http://{host}:{self.server_address[1]}", script)


class _Handler(BaseHTTPRequestHandler):
    server: _Server
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    timeout = 60

    def do_GET(self) -> None:
        self._send(200, {"object": "list", "data": []}, None)

    def do_POST(self) -> None:
        length = int(self.headers.get("Content-Length", 0))
        if length > MAX_REQUEST_BYTES:
            self.close_connection = True
            self._send(413, {"error": {"message": "too large"}}, None)
            return
        request = json.loads(self.rfile.read(length))
        model = self.server.model
        model.opened()
        status, used = 500, (0, 0)
        try:
            call = read(self.path, self.headers, request)
            reply = model.answer(call)
            status = reply.status
            if reply.stall_s:
                model.ended.wait(reply.stall_s)
            if status != 200 or reply.body is not None:
                self._send(status, reply.body, reply.retry_after_s, packed=reply.packed)
                return
            used = (tokens_of(call.system + call.prompt), tokens_of(said(reply)))
            self._send(200, write(call, reply, used if reply.usage else None), None, truncated=reply.truncated)
        finally:
            model.closed(status, used)

    def _send(
        self, status: int, document: Any, retry_after_s: float | None, *, truncated: bool = False, packed: bool = False
    ) -> None:
        body = document if isinstance(document, bytes) else json.dumps(document).encode()
        body = gzip.compress(body) if packed else body
        with suppress(BrokenPipeError, ConnectionResetError):
            self.send_response(status)
            if packed:
                self.send_header("Content-Encoding", "gzip")
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            if retry_after_s is not None:
                self.send_header("Retry-After", f"{retry_after_s:.3f}".rstrip("0").rstrip("."))
            self.end_headers()
            self.wfile.write(body[: len(body) // 2] if truncated else body)
        if truncated:
            self.close_connection = True

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the base class's name
        """Nothing: tests read what was seen from the server object."""
