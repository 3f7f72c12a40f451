"""The channel to a shard worker in a child process of this one."""

from __future__ import annotations

import json
import os
import shutil
import socket
import stat
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

import mst
from mst.errors import RunnerError
from mst.model.shard import LINE_MAX_BYTES
from mst.process.group import MARK, marked, new_mark, sweep
from mst.process.removal import remove_tree
from mst.shards.units import ARTIFACTS, UNITS

PASSED_ON = (
    "PATH",
    "HOME",
    "LANG",
    "LC_ALL",
    "TZ",
    "TMPDIR",
    "PYTHONPATH",
    "VIRTUAL_ENV",
    "SSL_CERT_FILE",
    "MST_HEARTBEAT_S",
    "MST_IMAGE_DIGEST",
)
"""All that a worker gets of this process's environment: nothing that could hold a secret."""
START = "import runpy, sys; sys.path.append(sys.argv.pop(1)); runpy.run_module('mst', run_name='__main__')"
"""This very mst, wherever it lies. `python -m` would look into the working folder first, where anything may lie."""
WAITING = "import sys; sys.path.append(sys.argv.pop(1)); from mst.shards.waiting import wait; wait()"
STDERR_TAIL_BYTES = 16 * 1024
FILE_MAX_BYTES = 2 * 1024**3


class ChildProcess:
    """A worker in a process session of its own. See `mst.shards.contract.WorkerProcess`."""

    def __init__(self, process: subprocess.Popen[bytes], mark: str) -> None:
        self._process = process
        self._mark = mark
        self._tail = bytearray()
        self._sending = threading.Lock()
        self._is_read = False
        self._stderr = threading.Thread(target=self._keep_tail, daemon=True, name="mst-worker-stderr")
        self._stderr.start()

    @property
    def pid(self) -> int:
        """Process ID of the worker; also of its group and session."""
        return self._process.pid

    def send(self, line: bytes) -> None:
        """See `WorkerProcess.send`."""
        assert self._process.stdin is not None
        with self._sending, suppress(BrokenPipeError, ValueError):
            self._process.stdin.write(line)
            self._process.stdin.flush()

    def lines(self) -> Iterator[bytes]:
        """See `WorkerProcess.lines`."""
        assert self._process.stdout is not None
        self._is_read = True
        with self._process.stdout as stream:
            while line := stream.readline(LINE_MAX_BYTES + 1):
                if len(line) > LINE_MAX_BYTES:
                    raise ValueError(f"the worker sent a line of more than {LINE_MAX_BYTES} bytes")
                yield line.rstrip(b"\n")

    def _keep_tail(self) -> None:
        assert self._process.stderr is not None
        with self._process.stderr as stream:
            while piece := stream.read1(STDERR_TAIL_BYTES):  # type: ignore[attr-defined]  # a BufferedReader
                self._tail += piece
                del self._tail[:-STDERR_TAIL_BYTES]

    def stderr_tail(self) -> str:
        """See `WorkerProcess.stderr_tail`."""
        self._stderr.join(timeout=1)
        return bytes(self._tail).decode("utf-8", "replace")

    def close_stdin(self) -> None:
        """See `WorkerProcess.close_stdin`."""
        assert self._process.stdin is not None
        with self._sending, suppress(BrokenPipeError):
            self._process.stdin.close()

    def kill(self) -> None:
        """See `WorkerProcess.kill`."""
        if self._process.poll() is None:
            sweep(self._process.pid, self._mark)
        else:
            sweep_leftovers(self._mark)
        self._process.wait()
        self.close_stdin()
        if not self._is_read and self._process.stdout is not None:
            self._process.stdout.close()
        self._stderr.join(timeout=1)

    def wait(self, timeout_s: float) -> int | None:
        """See `WorkerProcess.wait`."""
        try:
            return self._process.wait(timeout_s)
        except subprocess.TimeoutExpired:
            return None

    def ran_out_of_memory(self) -> bool:
        """See `WorkerProcess.ran_out_of_memory`. The kernel tells it to whoever made a control group, and not here."""
        return False


def start_waiting() -> ChildProcess:
    """Start a worker that waits for the shard which a channel gives it.

    Raises:
        RunnerError: none could be started.
    """
    try:
        return _start(WAITING, [], {})
    except OSError as error:
        raise RunnerError(f"no shard worker could be started: {error}") from error


def _start(code: str, argv: Sequence[str], environment: Mapping[str, str]) -> ChildProcess:
    mark = new_mark()
    inherited = {name: os.environ[name] for name in PASSED_ON if name in os.environ}
    process = subprocess.Popen(
        [sys.executable, "-P", "-c", code, str(Path(mst.__file__).parents[1]), *argv],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env={**inherited, **environment, MARK: mark},
        start_new_session=True,
    )
    return ChildProcess(process, mark)


def sweep_leftovers(mark: str) -> None:
    """Kill programs that a worker which has ended left behind."""
    for pid in marked(mark):
        with suppress(ProcessLookupError, PermissionError):
            os.kill(pid, 9)


class ProcessChannel:
    """Workers as child processes on this machine; files are linked rather than copied where the disk allows it."""

    def __init__(
        self,
        scratch: Path,
        *,
        environment: Mapping[str, str] | None = None,
        started: Callable[[int], None] = lambda _pid: None,
        waiting: Callable[[], ChildProcess | None] = lambda: None,
    ) -> None:
        """Nothing is started yet.

        Args:
            scratch: folder of the channel's own.
            environment: for the worker, beside `PASSED_ON`.
            started: told the worker's process ID before it knows its shard, or as soon as it has started.
            waiting: gives a worker that waits for an order, see `start_waiting`; one is started when it gives none.
        """
        self.machine = socket.gethostname()
        self._scratch = scratch
        self._environment = dict(environment or {})
        self._started = started
        self._waiting = waiting
        self._results = scratch / "results"

    def start(self, argv: Sequence[str], *, bundle: Path, results: Path) -> ChildProcess:
        """See `Channel.start`."""
        whole = [*argv, "--bundle", str(bundle), "--results", str(self._results)]
        try:
            self._bring_there(results)
            waiting = self._waiting()
            process = waiting or _start(START, whole, self._environment)
        except OSError as error:
            raise RunnerError(f"no shard worker could be started: {error}") from error
        try:
            self._started(process.pid)
        except OSError as error:
            process.kill()
            raise RunnerError(f"no shard worker could be started: {error}") from error
        if waiting is not None:
            order = {"argv": whole, "environment": self._environment}
            waiting.send(json.dumps(order).encode() + b"\n")
        return process

    def _bring_there(self, results: Path) -> None:
        with suppress(OSError):
            remove_tree(self._results)
        self._results.mkdir(parents=True, mode=0o700)
        for name in (UNITS, ARTIFACTS):
            if (results / name).is_dir():
                shutil.copytree(results / name, self._results / name, copy_function=_link)
        for path in results.glob("*.json"):
            shutil.copyfile(path, self._results / path.name)

    def get(self, relative: str, into: Path) -> None:
        """See `Channel.get`."""
        source, target = f"{self._results}/{relative}", str(into)
        try:
            status = os.lstat(source)
            if not stat.S_ISREG(status.st_mode) or status.st_size > FILE_MAX_BYTES:
                raise RunnerError(f"cannot be brought back: no plain file of at most {FILE_MAX_BYTES} bytes")
            try:
                # a link is there as a whole or not at all, so the usual case needs no temporary name
                os.link(source, target)
            except OSError:
                _replace(source, into)
        except OSError as error:
            raise RunnerError(f"cannot be brought back: {error.strerror}") from error

    def put(self, source: Path, relative: str) -> str:
        """See `Channel.put`."""
        target = self._scratch / "inbox" / relative
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(source, target)
        return str(target)

    def close(self) -> None:
        """See `Channel.close`."""
        with suppress(OSError):
            remove_tree(self._scratch)


def _replace(source: str, into: Path) -> None:
    """Bring a file where its folder is missing, an earlier one lies, or another disk is."""
    into.parent.mkdir(parents=True, exist_ok=True)
    temporary = into.with_name(f".{into.name}.tmp")
    temporary.unlink(missing_ok=True)
    _link(source, str(temporary))
    temporary.replace(into)
    # renaming one link of a file over another one of it does nothing
    temporary.unlink(missing_ok=True)


def _link(source: str, target: str) -> None:
    try:
        os.link(source, target)
    except OSError:
        shutil.copyfile(source, target)
