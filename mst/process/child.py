"""Running one program to its end: in a group of its own, with bounded time and output, leaving nothing behind."""

from __future__ import annotations

import asyncio
import signal
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mst.errors import ProgramError
from mst.process.finishing import wait_out
from mst.process.group import MARK, Birth, new_mark, signal_group, sweep
from mst.process.reaping import watch_by_descriptor

TERM_GRACE_S = 2.0
"""How long a program may tidy up after SIGTERM before SIGKILL."""
_REAP_S = 5.0
_DRAIN_S = 1.0


@dataclass(frozen=True, kw_only=True)
class ChildResult:
    """How a program ended.

    Attributes:
        exit_code: minus the signal's number when a signal ended it.
        timed_out: its time was over; it was ended by us.
        output_truncated: it wrote more than its bound; it was ended by us and the rest is lost.
        leftovers: names of programs that it had started and that outlived it; they were killed.
        stopped: why it was ended by us on somebody's word (`stop` of `run_child`).
    """

    exit_code: int
    stdout: bytes
    stderr: bytes
    timed_out: bool = False
    output_truncated: bool = False
    duration_ms: float = 0.0
    leftovers: tuple[str, ...] = ()
    stopped: str | None = None


async def run_child(
    argv: Sequence[str],
    *,
    cwd: Path | str,
    env: Mapping[str, str],
    stdin: bytes | None = None,
    timeout_s: float,
    output_bytes: int,
    on_start: Callable[[int], None] | None = None,
    grace_s: float = TERM_GRACE_S,
    pass_fds: Sequence[int] = (),
    stop: asyncio.Future[str] | None = None,
    terminate: Callable[[str], None] | None = None,
) -> ChildResult:
    """Run a program, never through a shell, and end its whole family before returning.

    At its deadline, or when its output passes the bound, the group gets SIGTERM, then after `grace_s` SIGKILL. After
    any end, what is left of its family is killed. On cancellation everything is killed at once.

    Args:
        argv: program and arguments; a name without a slash is looked up in the PATH of `env`.
        cwd: working folder; a relative program with a slash is found from here.
        env: the whole environment; nothing is inherited. `MST_PROCESS` is added.
        stdin: None connects the null device.
        timeout_s: its deadline, from its start.
        output_bytes: bound of stdout and stderr together.
        grace_s: time between SIGTERM and SIGKILL.
        on_start: told the process ID, which is also the ID of the group and the session.
        pass_fds: descriptors that the program inherits under the same numbers, apart from its standard ones.
        stop: when it gets a result, the program is ended as at its deadline.
        terminate: asks the program to end, given its mark; SIGTERM to its group unless given.

    Raises:
        ProgramError: it could not be started: missing, not executable, bad working folder.
    """
    mark = new_mark()
    loop = asyncio.get_running_loop()
    started = time.perf_counter()
    watch = _Watch(loop, output_bytes)
    birth = Birth.now()
    begun = _start(watch, argv, cwd=cwd, env={MARK: mark, **env}, stdin=stdin, pass_fds=pass_fds)
    transport, interrupted = await _started(asyncio.ensure_future(begun))
    pid = transport.get_pid()
    leftovers: tuple[str, ...] = ()
    end = _End()
    try:
        if interrupted is not None:
            raise interrupted
        if on_start is not None:
            on_start(pid)
        _feed(transport, stdin)
        ask = (lambda: signal_group(pid, signal.SIGTERM)) if terminate is None else (lambda: terminate(mark))
        end = await _until_ended(watch, stop, ask, timeout_s=timeout_s, grace_s=grace_s)
    finally:
        # No await before this line: on cancellation the kill has been sent whatever happens next.
        leftovers = sweep(pid, mark, birth)
        await _settle(watch, transport, pid)
    return ChildResult(
        exit_code=_exit_code(transport),
        stdout=bytes(watch.kept[1]),
        stderr=bytes(watch.kept[2]),
        timed_out=end.timed_out,
        output_truncated=watch.truncated,
        duration_ms=(time.perf_counter() - started) * 1000,
        leftovers=leftovers,
        stopped=end.stopped,
    )


@dataclass(frozen=True)
class _End:
    timed_out: bool = False
    stopped: str | None = None


class _Watch(asyncio.SubprocessProtocol):
    """Keeps output up to its bound and says when the program ended, apart from when its pipes closed.

    They are apart because a grandchild that inherited a pipe holds it open after the program's end.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop, output_bytes: int) -> None:
        self.kept = {1: bytearray(), 2: bytearray()}
        self.truncated = False
        self.full: asyncio.Future[None] = loop.create_future()
        self.ended: asyncio.Future[None] = loop.create_future()
        self.closed: asyncio.Future[None] = loop.create_future()
        self._room = output_bytes
        self._open = {1, 2}

    def pipe_data_received(self, fd: int, data: bytes) -> None:
        self.kept[fd] += data[: self._room]
        if len(data) > self._room:
            self.truncated = True
            if not self.full.done():
                self.full.set_result(None)
        self._room = max(0, self._room - len(data))

    def pipe_connection_lost(self, fd: int, exc: Exception | None) -> None:
        self._open.discard(fd)
        if not self._open and not self.closed.done():
            self.closed.set_result(None)

    def process_exited(self) -> None:
        if not self.ended.done():
            self.ended.set_result(None)


async def _started(
    starting: asyncio.Future[asyncio.SubprocessTransport],
) -> tuple[asyncio.SubprocessTransport, asyncio.CancelledError | None]:
    """The started program, and the cancellation that came meanwhile.

    A start that is cancelled half-way kills the program alone, not what it has started by then, and waits for pipes
    which those hold open. So it is let through, which takes no longer than the start of a process.
    """
    interrupted = await wait_out(starting)
    if interrupted is not None and starting.exception() is not None:
        raise interrupted
    return starting.result(), interrupted


async def _start(
    watch: _Watch,
    argv: Sequence[str],
    *,
    cwd: Path | str,
    env: Mapping[str, str],
    stdin: bytes | None,
    pass_fds: Sequence[int],
) -> asyncio.SubprocessTransport:
    watch_by_descriptor()
    try:
        transport, _ = await asyncio.get_running_loop().subprocess_exec(
            lambda: watch,
            *argv,
            stdin=asyncio.subprocess.DEVNULL if stdin is None else asyncio.subprocess.PIPE,
            cwd=str(cwd),
            env=dict(env),
            start_new_session=True,
            pass_fds=tuple(pass_fds),
        )
    except (OSError, ValueError) as error:
        raise ProgramError(_why_not(argv, cwd, error)) from error
    return transport


def _why_not(argv: Sequence[str], cwd: Path | str, error: OSError | ValueError) -> str:
    name = argv[0] if argv else "(empty command)"
    if not Path(cwd).is_dir():
        return f"{name}: its working folder does not exist"
    if isinstance(error, FileNotFoundError):
        return f"{name}: no such program; install it or give its path"
    if isinstance(error, PermissionError):
        return f"{name}: not executable; set its executable bit or name its interpreter"
    # Only the reason: a ValueError or an OSError may carry arguments or the environment.
    reason = error.strerror if isinstance(error, OSError) else "an argument or a variable holds a NUL byte"
    return f"{name}: could not be started: {reason}"


def _feed(transport: asyncio.SubprocessTransport, stdin: bytes | None) -> None:
    pipe = transport.get_pipe_transport(0)
    if pipe is None or stdin is None:
        return
    assert isinstance(pipe, asyncio.WriteTransport)
    pipe.write(stdin)
    pipe.write_eof()


async def _until_ended(
    watch: _Watch, stop: asyncio.Future[str] | None, ask: Callable[[], None], *, timeout_s: float, grace_s: float
) -> _End:
    """Wait for the end; end it at its deadline, when its output is full, or on somebody's word."""
    waits: set[asyncio.Future[Any]] = {watch.ended, watch.full}
    if stop is not None:
        waits.add(stop)
    await asyncio.wait(waits, timeout=timeout_s, return_when=asyncio.FIRST_COMPLETED)
    if watch.ended.done():
        return _End()
    stopped = stop.result() if stop is not None and stop.done() and not stop.cancelled() else None
    ask()
    await asyncio.wait({watch.ended}, timeout=grace_s)
    return _End(timed_out=not watch.truncated and stopped is None, stopped=stopped)


async def _settle(watch: _Watch, transport: asyncio.SubprocessTransport, pid: int) -> None:
    """Reap the child and read what its pipes still hold. Repeated cancellation does not cut it short: it is bounded."""
    interrupted = await wait_out(asyncio.ensure_future(_finish(watch)))
    if transport.get_returncode() is None:
        signal_group(pid, signal.SIGKILL)
    # Closing kills the leader once more if the kernel has not ended it yet.
    with suppress(ProcessLookupError):
        transport.close()
    if interrupted is not None:
        raise interrupted


async def _finish(watch: _Watch) -> None:
    await asyncio.wait({watch.ended}, timeout=_REAP_S)
    await asyncio.wait({watch.closed}, timeout=_DRAIN_S)


def _exit_code(transport: asyncio.SubprocessTransport) -> int:
    code = transport.get_returncode()
    return -int(signal.SIGKILL) if code is None else code
