"""A proxy between a client and a real Redis or Valkey that breaks chosen commands on the way.

It speaks enough of the protocol to know commands and answers apart, so that a command can reach the server once, twice
or never, and its answer can be lost. Subscriptions and `MONITOR` don't pass: they have answers without commands.
"""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import BinaryIO, Literal
from urllib.parse import unquote, urlsplit

from mst.fleet.connect import socket_url

BrokerFault = Literal["drop", "cut", "lost-answer", "delay", "twice"]
"""`drop`: it never arrives, and no answer comes. `cut`: the connection ends before it arrives. `lost-answer`: it is
done, and the connection ends. `delay`: it arrives later. `twice`: it is done twice; the first answer is given."""
Plan = Callable[[Sequence[bytes]], BrokerFault | None]
DELAY_S = 0.02
_PACE = threading.Event()
NO_SCRIPT = b"-NOSCRIPT"


@dataclass
class BrokerFaults:
    """What the proxy does and has done.

    Attributes:
        url: where clients connect.
        plan: asked for each command, by its words; may be replaced at any time.
        done: how many of the commands that `counts` names the server has done.
        answered: the number of that whose answer last reached a client.
        faults: how many commands were broken.
    """

    url: str = field(repr=False)
    plan: Plan = lambda _words: None
    counts: bytes = b"EVALSHA"
    done: int = 0
    answered: int = 0
    faults: int = 0
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def note_done(self, words: Sequence[bytes], answer: bytes) -> int:
        """Count one that the server has done; returns its number."""
        with self._lock:
            if words[0].upper() == self.counts and not answer.startswith(NO_SCRIPT):
                self.done += 1
            return self.done

    def note_answered(self, number: int) -> None:
        """Its answer is on its way."""
        with self._lock:
            self.answered = number

    def fault(self, words: Sequence[bytes]) -> BrokerFault | None:
        """The fault for this command."""
        with self._lock:
            found = self.plan(words)
            self.faults += found is not None
            return found


@contextmanager
def broker_proxy(url: str, folder: Path) -> Iterator[BrokerFaults]:
    """Run a proxy before a broker on a Unix socket.

    Args:
        url: of the broker, as `socket_url` makes it.
        folder: for the proxy's own socket; its path must be short.
    """
    parts = urlsplit(url)
    place = folder / "proxy"
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(str(place))
    listener.listen(64)
    faults = BrokerFaults(socket_url(str(place), unquote(parts.password or "")))
    open_ones: list[socket.socket] = []
    thread = threading.Thread(
        target=_accept, args=(listener, unquote(parts.path), faults, open_ones), daemon=True, name="broker-proxy"
    )
    thread.start()
    try:
        yield faults
    finally:
        for one in (listener, *open_ones):
            _shut(one)
        thread.join(10)


def _accept(listener: socket.socket, target: str, faults: BrokerFaults, open_ones: list[socket.socket]) -> None:
    with suppress(OSError):
        while True:
            client, _ = listener.accept()
            open_ones.append(client)
            threading.Thread(target=_serve, args=(client, target, faults), daemon=True).start()


def _serve(client: socket.socket, target: str, faults: BrokerFaults) -> None:
    server = socket.socket(socket.AF_UNIX)
    with suppress(OSError, EOFError), client, server:
        server.connect(target)
        with client.makefile("rb") as asked, server.makefile("rb") as answers:
            while _pass_on(client, server, asked, answers, faults):
                pass
        _shut(client)


def _pass_on(
    client: socket.socket, server: socket.socket, asked: BinaryIO, answers: BinaryIO, faults: BrokerFaults
) -> bool:
    """One command; returns whether the connection goes on."""
    raw, words = _command(asked)
    fault = faults.fault(words)
    if fault == "drop":
        return True
    if fault == "cut":
        return False
    if fault == "delay":
        _PACE.wait(DELAY_S)
    server.sendall(raw)
    answer = _answer(answers)
    number = faults.note_done(words, answer)
    if fault == "twice" and not answer.startswith(NO_SCRIPT):
        server.sendall(raw)
        faults.note_done(words, _answer(answers))
    if fault == "lost-answer":
        return False
    faults.note_answered(number)
    client.sendall(answer)
    return True


def _line(stream: BinaryIO) -> bytes:
    line = stream.readline()
    if not line.endswith(b"\r\n"):
        raise EOFError
    return line


def _command(stream: BinaryIO) -> tuple[bytes, list[bytes]]:
    raw = _line(stream)
    words = []
    for _ in range(int(raw[1:])):
        head = _line(stream)
        body = stream.read(int(head[1:]) + 2)
        words.append(body[:-2])
        raw += head + body
    return raw, words


def _answer(stream: BinaryIO) -> bytes:
    head = _line(stream)
    match head[:1]:
        case b"$" if int(head[1:]) >= 0:
            return head + stream.read(int(head[1:]) + 2)
        case b"*" if int(head[1:]) >= 0:
            return head + b"".join(_answer(stream) for _ in range(int(head[1:])))
    return head


def _shut(one: socket.socket) -> None:
    with suppress(OSError):
        one.shutdown(socket.SHUT_RDWR)
    one.close()
