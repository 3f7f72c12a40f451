"""A whole fleet on this machine for the time of one command: a broker, keys, a few workers. Same code as a real one.

All of it ends with the coordinator, however that ends: the broker watches its parent, the workers their stdin.
"""

from __future__ import annotations

import os
import secrets
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path

from mst.errors import BrokerError, RunnerError
from mst.fleet.connect import BROKER_ENV, connect
from mst.fleet.embedded import START_S as BROKER_START_S
from mst.fleet.embedded import EmbeddedBroker
from mst.fleet.keys import KeyFiles, keygen
from mst.fleet.presence import Presence
from mst.runs.folder import RunFolder
from mst.shards.process_channel import PASSED_ON

FLEET_FOLDER = ".fleet"
"""In a results root: the store of embedded fleets, and the logs of their workers."""
START_S = 60.0
STOP_S = 15.0
WATCH_S = 0.2
LOG_TAIL_BYTES = 2000
STORE_SETTINGS = ("AWS_", "GOOGLE_")
"""A worker opens the store as its coordinator does. Shard workers get none of these."""
KEPT_LOGS = 100
"""Of workers of earlier fleets; more than one fleet can have at a time."""
RESTARTS = 20
"""Workers that may be started in place of dead ones, in all."""

Died = Callable[[str], None]
Say = Callable[[str], None]


class EmbeddedFleet:
    """A running embedded fleet.

    Attributes:
        broker: its broker.
        keys: signing key and fleet key, in the broker's private folder.
    """

    def __init__(self, *, store_uri: str, workers: int, queue: str, logs: Path, say: Say = lambda _text: None) -> None:
        """Start everything and wait until a worker serves the queue.

        Args:
            store_uri: where dispatches go.
            workers: how many worker processes.
            queue: that must be served.
            logs: folder for the workers' logs; of earlier ones the newest 100 stay.
            say: told what is being started, and when it is there.

        Raises:
            UsageError, BrokerError: no broker, see `EmbeddedBroker.start`.
            RunnerError: no worker came up; the message has the end of its log.
        """
        self._store_uri = store_uri
        self._queue = queue
        self._logs = logs
        self._ended = threading.Event()
        self._died: Died = lambda _name: None
        self._restarts = 0
        self._workers: dict[str, subprocess.Popen[bytes]] = {}
        logs.mkdir(parents=True, exist_ok=True, mode=0o700)
        _remove_old_logs(logs)
        programs = "a broker and 1 worker" if workers == 1 else f"a broker and {workers} workers"
        say(f"starting {programs} here, for this command only; that may take {BROKER_START_S + START_S:g} s")
        began = time.monotonic()
        self.broker = EmbeddedBroker.start()
        try:
            self.keys: KeyFiles = keygen(self.broker.folder / "keys", evals=["*"], queues=["*"], now=datetime.now(UTC))
            self._client = connect(self.broker.url)
            for _ in range(workers):
                self._start_worker()
            self._wait_for_workers()
            say(f"they are there after {time.monotonic() - began:.0f} s")
        except BaseException:
            self.stop()
            raise
        self._watcher = threading.Thread(target=self._watch, daemon=True, name="mst-fleet")
        self._watcher.start()

    def environ(self) -> Mapping[str, str]:
        """What points a coordinator or worker at this fleet."""
        return {BROKER_ENV: self.broker.url, "MST_STORE": self._store_uri, **self.keys.environ()}

    def when_worker_dies(self, died: Died) -> None:
        """Be told the names of workers that end by themselves; each is replaced."""
        self._died = died

    def worker_pids(self) -> list[int]:
        """Process IDs of the workers."""
        return [process.pid for process in self._workers.values()]

    def stop(self, *, at_once: bool = False) -> None:
        """End workers and broker, and wait for them. Safe to call twice.

        Args:
            at_once: do not wait for units in flight.
        """
        self._ended.set()
        for process in self._workers.values():
            if at_once:
                _close_stdin(process)
            process.terminate()
        deadline = time.monotonic() + STOP_S
        for process in self._workers.values():
            try:
                process.wait(max(0.1, deadline - time.monotonic()))
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
            _close_stdin(process)
        self._workers.clear()
        if getattr(self, "_client", None) is not None:
            self._client.close()
        self.broker.stop()

    def _start_worker(self) -> None:
        name = f"embedded-{secrets.token_hex(3)}"
        inherited = {
            key: value for key, value in os.environ.items() if key in PASSED_ON or key.startswith(STORE_SETTINGS)
        }
        log = (self._logs / f"{name}.log").open("ab")
        try:
            self._workers[name] = subprocess.Popen(
                [
                    sys.executable, "-P", "-m", "mst", "worker", "--trusted", "--with-stdin", "--name", name,
                    "--janitor-every", "0.5", "--settle", "1",
                ],
                stdin=subprocess.PIPE,
                stdout=log,
                stderr=log,
                env={**inherited, **self.environ()},
                start_new_session=True,
            )  # fmt: skip
        finally:
            log.close()

    def _wait_for_workers(self) -> None:
        presence = Presence(self._client)
        deadline = time.monotonic() + START_S
        while not presence.workers(self._queue):
            ended = [name for name, process in self._workers.items() if process.poll() is not None]
            if ended or time.monotonic() > deadline:
                raise RunnerError(self._why_nobody(ended[0] if ended else next(iter(self._workers))))
            self._ended.wait(0.05)

    def _watch(self) -> None:
        while not self._ended.wait(WATCH_S):
            for name, process in list(self._workers.items()):
                if process.poll() is None:
                    continue
                del self._workers[name]
                with suppress(BrokerError):
                    self._died(name)
                if self._restarts < RESTARTS and not self._ended.is_set():
                    self._restarts += 1
                    self._start_worker()

    def _why_nobody(self, name: str) -> str:
        code = self._workers[name].poll()
        how = f"serves within {START_S:g} s" if code is None else f"came up: it ended with {code}"
        path = self._logs / f"{name}.log"
        lines = path.read_bytes()[-LOG_TAIL_BYTES:].decode(errors="replace").strip().splitlines()
        return f"no embedded worker {how}; {lines[-1] if lines else 'its log is empty'}; all of it: {path}"


def _remove_old_logs(folder: Path) -> None:
    """Remove what is older than the newest logs. Another command may be doing the same."""
    written: dict[Path, float] = {}
    for path in folder.glob("*.log"):
        with suppress(OSError):
            written[path] = path.stat().st_mtime
    for path in sorted(written, key=lambda one: written[one], reverse=True)[KEPT_LOGS:]:
        with suppress(OSError):
            path.unlink()


def _close_stdin(process: subprocess.Popen[bytes]) -> None:
    """Tell a worker that its coordinator is gone: it kills what it runs and ends."""
    if process.stdin is not None:
        with suppress(OSError):
            process.stdin.close()


def remove_left_dispatches(results_root: Path) -> None:
    """Remove what embedded fleets hold of runs with which nobody goes on: they are over, or were removed."""
    for path in (results_root / FLEET_FOLDER).glob("*/dispatches/*"):
        if _is_over(RunFolder(results_root / path.parent.parent.name / "runs" / path.name)):
            shutil.rmtree(path, ignore_errors=True)


def _is_over(folder: RunFolder) -> bool:
    if not folder.path.is_dir():
        return True
    # whoever sends something has its plan there before
    return not folder.work.exists() and (folder.path / "run.json").is_file() and folder.run().phases.grade == "complete"
