"""An HTTP proxy between a client and a real server that breaks chosen requests on the way.

The server really gets the request of each fault on the way back (a lost, cut, silent or stalled answer), so what a
client does next is tested against true state.
"""

from __future__ import annotations

import http.client
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Literal
from urllib.parse import urlsplit

Fault = Literal[
    "lost-reply", "cut-body", "flipped-bit", "flipped-request", "silent", "stalled",
    "reset", "500", "503", "409", "expired", "skewed", "denied",
]  # fmt: skip
"""`flipped-request` changes a bit on the way in, `flipped-bit` on the way back; `silent` gets no byte of its answer,
`stalled` half of the body and then none, until the client gives up."""
Plan = Callable[[str, str], Fault | None]
"""Method and path of a request; what happens to it, None to pass it on."""
Rule = Callable[[str, str, Mapping[str, str]], bool]
"""Method, path and headers of a request; whether it is denied, as by a policy that the server does not know."""

_EXPIRED = b"<Error><Code>ExpiredToken</Code><Message>The provided token has expired.</Message></Error>"
_SKEWED = b"<Error><Code>RequestTimeTooSkewed</Code><Message>The clocks differ too much.</Message></Error>"
_DENIED = b"<Error><Code>AccessDenied</Code><Message>No.</Message></Error>"
_BUSY = b"<Error><Code>ConditionalRequestConflict</Code><Message>Try again.</Message></Error>"
_ANSWERS: dict[str, tuple[int, bytes]] = {
    "500": (500, b"<Error><Code>InternalError</Code></Error>"),
    "503": (503, b"<Error><Code>SlowDown</Code></Error>"),
    "409": (409, _BUSY),
    "expired": (400, _EXPIRED),
    "skewed": (403, _SKEWED),
    "denied": (403, _DENIED),
}


class Faults:
    """What the proxy does and has done. Thread-safe.

    Attributes:
        url: where the proxy listens.
        plan: asked for each request; may be replaced at any time.
        rule: the same, asked first.
        seen: method and path of every request, in order.
    """

    def __init__(self, url: str) -> None:
        self.url = url
        self.plan: Plan = lambda _method, _path: None
        self.rule: Rule = lambda _method, _path, _headers: False
        self.seen: list[tuple[str, str]] = []
        self._lock = threading.Lock()

    def next(self, method: str, path: str, headers: Mapping[str, str]) -> Fault | None:
        """The fault for this request."""
        with self._lock:
            self.seen.append((method, path))
            return "denied" if self.rule(method, path, headers) else self.plan(method, path)

    def once(self, fault: Fault, method: str, part: str, *, times: int = 1) -> None:
        """Break the first requests of a method whose path contains `part`."""
        left = [fault] * times

        def plan(found: str, path: str) -> Fault | None:
            return left.pop() if left and found == method and part in path else None

        self.plan = plan

    def always(self, fault: Fault) -> None:
        """Break everything from now on."""
        self.plan = lambda _method, _path: fault

    def never(self) -> None:
        """Pass everything on from now on."""
        self.plan = lambda _method, _path: None


@contextmanager
def fault_proxy(target_url: str) -> Iterator[Faults]:
    """Run a proxy in front of a server on loopback."""
    target = urlsplit(target_url)
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Handler)
    server.daemon_threads = True
    faults = Faults(f"http://127.0.0.1:{server.server_address[1]}")
    server.faults = faults  # type: ignore[attr-defined]  # the handler's only way to its settings
    server.target = (target.hostname, target.port)  # type: ignore[attr-defined]  # as above
    thread = threading.Thread(target=server.serve_forever, name="fault-proxy", kwargs={"poll_interval": 0.05})
    thread.start()
    try:
        yield faults
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def _flipped(data: bytes) -> bytes:
    return data[:-1] + bytes([data[-1] ^ 1]) if data else data


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: Any

    def do_any(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        fault = self.server.faults.next(self.command, self.path, self.headers)
        if fault == "reset":
            self._hang_up()
        elif fault in _ANSWERS:
            status, text = _ANSWERS[fault]
            self._answer(status, [("Content-Type", "application/xml")], text)
        else:
            self._forward(_flipped(body) if fault == "flipped-request" else body, fault)

    do_GET = do_PUT = do_POST = do_HEAD = do_DELETE = do_any  # noqa: N815 - names that http.server looks for

    def _forward(self, body: bytes, fault: Fault | None) -> None:
        host, port = self.server.target
        connection = http.client.HTTPConnection(host, port, timeout=60)
        try:
            # The signature covers the Host header, so it goes on as it came.
            connection.request(self.command, self.path, body, dict(self.headers.items()))
            answer = connection.getresponse()
            content = answer.read()
            headers = answer.getheaders()
        finally:
            connection.close()
        if fault == "flipped-bit":
            content = _flipped(content)
        if fault == "silent":
            self._wait()
        if fault in ("lost-reply", "silent"):
            self._hang_up()
        else:
            self._answer(answer.status, headers, content, cut=fault in ("cut-body", "stalled"))
        if fault == "stalled":
            self._wait()

    def _answer(self, status: int, headers: list[tuple[str, str]], content: bytes, *, cut: bool = False) -> None:
        self.send_response_only(status)
        dropped = {"transfer-encoding", "connection"} | (set() if self.command == "HEAD" else {"content-length"})
        for name, value in headers:
            if name.lower() not in dropped:
                self.send_header(name, value)
        if self.command != "HEAD":
            self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(b"" if self.command == "HEAD" else content[: len(content) // 2] if cut else content)
        if cut:
            self._hang_up()

    def _hang_up(self) -> None:
        self.close_connection = True
        self.wfile.flush()

    def _wait(self) -> None:
        """Until the client hangs up, or a minute has passed."""
        self.connection.settimeout(60)
        with suppress(OSError):
            self.connection.recv(1)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the name that http.server gives
        """Say nothing."""
