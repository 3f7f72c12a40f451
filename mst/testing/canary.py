"""Looking for a secret everywhere that a run leaves something, while it runs and after.

The forms are made here anew, not taken from the product's redaction: both would then miss the same.
"""

from __future__ import annotations

import base64
import binascii
import io
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any
from urllib.parse import quote, quote_plus

import zstandard

from mst.fleet.connect import RedisClient
from mst.testing.servers import ValkeyServer

ZSTD_MAGIC = b"\x28\xb5\x2f\xfd"
SAMPLE_EVERY_S = 0.02
LONGEST_BYTES = 256 * 1024 * 1024


class Canary:
    """A secret value and all forms in which it must not occur."""

    def __init__(self, value: str) -> None:
        self.value = value
        self._forms = {form for form in _forms(value) if len(form) >= 8}

    def __repr__(self) -> str:
        return "Canary()"

    def is_in(self, data: bytes) -> bool:
        """Whether the value stands in these bytes in some form, also when line breaks were put into it."""
        joined = data.translate(None, b"\r\n \t")
        return any(form in data or form.translate(None, b"\r\n \t") in joined for form in self._forms)

    def places(self, *roots: Path) -> list[str]:
        """The files below some folders whose name or content holds it; archives are looked into."""
        found = []
        for root in roots:
            for path in sorted(root.rglob("*")):
                held = self.is_in(str(path).encode())
                if not held and path.is_file() and not path.is_symlink():
                    data = path.read_bytes()
                    held = self.is_in(data) or (data.startswith(ZSTD_MAGIC) and self.is_in(_unpacked(data)))
                if held:
                    found.append(str(path.relative_to(root)))
        return found

    def keys(self, client: RedisClient) -> list[str]:
        """The keys of a Redis whose name or content holds it."""
        return [name for name in client.scan_iter("*", count=1000) if self.is_in(_content(client, name))]


class Watch:
    """What was seen of a secret while something ran: in process arguments, and in what Redis was told."""

    def __init__(self, canary: Canary, broker: ValkeyServer | None) -> None:
        self._canary = canary
        self._broker = broker
        self._ended = threading.Event()
        self.arguments: list[str] = []
        self.commands: list[str] = []
        self.sampled = 0
        self.heard = 0

    def stop(self) -> None:
        """See and hear no more."""
        self._ended.set()

    def look(self) -> None:
        """Sample the arguments of every process of this machine until the end."""
        while not self._ended.wait(SAMPLE_EVERY_S):
            for path in Path("/proc").glob("[0-9]*/cmdline"):
                with suppress(OSError):
                    data = path.read_bytes()
                    self.sampled += 1
                    if self._canary.is_in(data):
                        self.arguments.append(data.replace(b"\0", b" ").decode(errors="replace"))

    def listen(self, ready: threading.Event) -> None:
        """Take down what Redis is told, until the end."""
        import redis  # noqa: PLC0415 - optional, and only needed here

        assert self._broker is not None
        url = self._broker.url.replace("redis+socket", "unix")
        client: Any = redis.Redis.from_url(url, socket_timeout=0.5)  # its types leave `monitor` out
        with client.monitor() as monitor:
            ready.set()
            while not self._ended.is_set():
                with suppress(redis.TimeoutError):
                    command = str(monitor.next_command()["command"])
                    self.heard += 1
                    # how MONITOR shows bytes
                    raw = command.encode().decode("unicode_escape", errors="replace").encode("latin-1", "replace")
                    if self._canary.is_in(command.encode()) or self._canary.is_in(raw):
                        self.commands.append(command[:200])
        client.close()


@contextmanager
def watching(canary: Canary, broker: ValkeyServer | None = None) -> Iterator[Watch]:
    """Watch processes, and a broker when there is one, for as long as the block runs."""
    watch = Watch(canary, broker)
    threads = [threading.Thread(target=watch.look, daemon=True)]
    ready = threading.Event()
    if broker is not None:
        threads.append(threading.Thread(target=watch.listen, args=(ready,), daemon=True))
    for thread in threads:
        thread.start()
    if broker is not None:
        assert ready.wait(10), "MONITOR began"
    try:
        yield watch
    finally:
        watch.stop()
        for thread in threads:
            thread.join(10)


def _forms(value: str) -> Iterator[bytes]:
    raw = value.encode()
    once = json.dumps(value)[1:-1]
    texts = [value, once, json.dumps(once)[1:-1], json.dumps(value, ensure_ascii=False)[1:-1], repr(value)[1:-1]]
    texts += [quote(value), quote(value, safe=""), quote_plus(value), value.encode("unicode_escape").decode()]
    yield from (text.encode() for text in texts)
    yield binascii.hexlify(raw)
    yield raw[::-1]
    for before in (b"", b"a", b"ab"):
        for encode in (base64.b64encode, base64.urlsafe_b64encode):
            encoded = encode(before + raw)
            yield encoded[4 if before else 0 : -4]


def _unpacked(data: bytes) -> bytes:
    with zstandard.ZstdDecompressor().stream_reader(io.BytesIO(data)) as stream:
        return bytes(stream.read(LONGEST_BYTES))


def _content(client: RedisClient, name: str) -> bytes:
    """Name and everything under it, as text."""
    kind = client.type(name)
    readers = {
        "string": lambda: client.get(name),
        "hash": lambda: client.hgetall(name),
        "list": lambda: client.lrange(name, 0, -1),
        "set": lambda: client.smembers(name),
        "zset": lambda: client.zrange(name, 0, -1),
        "stream": lambda: client.xrange(name),
    }
    held = readers[kind]() if kind in readers else ""
    texts: list[str] = [name]
    _flatten(held, texts)
    return "\n".join(texts).encode()


def _flatten(held: object, into: list[str]) -> None:
    if isinstance(held, dict):
        for key, value in held.items():
            _flatten(key, into)
            _flatten(value, into)
    elif isinstance(held, list | tuple | set):
        for value in held:
            _flatten(value, into)
    else:
        into.append(str(held))
        # messages are base64 inside JSON
        with suppress(ValueError, binascii.Error):
            body = json.loads(str(held))
            if isinstance(body, dict) and isinstance(body.get("body"), str):
                into.append(base64.b64decode(body["body"]).decode(errors="replace"))
