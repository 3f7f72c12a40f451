"""The shard worker: `mst collect` and `mst grade-shard` on a bundle. One grading path, one way to collect, as anywhere.

Secrets arrive on stdin and stay in memory and in the environments of the processes that need them. End of stdin means
that the supervisor is gone: what runs is killed, so that nobody goes on paying for results that nobody fetches.
"""

from __future__ import annotations

import asyncio
import os
import platform
import signal
import socket
import sys
import threading
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path

from mst import __version__
from mst.config.registry import plugin_versions
from mst.errors import GradingFault, InfrastructureError, MstError, UsageError, VersionMismatch
from mst.grade.breaker import Breaker
from mst.model.base import Model
from mst.model.shard import (
    HEARTBEAT_S,
    Cancel,
    Done,
    Granted,
    Heartbeat,
    Hello,
    JudgeCounted,
    JudgeStopped,
    Limits,
    NeedTokens,
    Refused,
    SupervisorMessage,
    Tokens,
    Work,
)
from mst.process import tracing
from mst.process.group import MARK, marked
from mst.process.redact import Redactor
from mst.process.scratch import scratch_folder
from mst.shards.asking import Asking
from mst.shards.bundle import Bundle
from mst.shards.job import Job, Tally
from mst.shards.wire import Wire, read_messages

EXIT_REFUSED = 5
EXIT_ORPHANED = 70
ORPHAN_GRACE_S = 10.0
TOGETHER_S = 0.005
"""A unit's end waits so long for the next unit's begin: one write, and one wake-up of the supervisor, for both."""
FAULT_MAX = 300
"""Characters of a judge's fault that are told to others."""


def run_worker(work: Work, bundle: Path, results: Path, *, digest: str, attempt: str | None) -> int:
    """Work through a bundle and return the exit code. Owns the process: stdin, stdout, signals.

    Args:
        work: must be the bundle's.
        bundle: folder with the bundle.
        results: folder for unit files; finished units that lie there are kept.
        digest: of the bundle; every unit names it.
        attempt: ID of this attempt.
    """
    os.umask(0o077)
    wire = Wire.take_stdout()
    tracing.configure("mst-shard")
    wire.send(hello())
    try:
        found = Bundle(bundle)
        _check(found, work)
    except MstError as error:
        return _give_up(wire, error, Redactor([]))
    with scratch_folder("shard") as scratch:
        session = _Session(wire, found, results, scratch, digest=digest, attempt=attempt)
        return asyncio.run(session.run(work))


def _give_up(wire: Wire, error: MstError, redactor: Redactor) -> int:
    """Say why this worker ends early. Only what no other machine would do better is a refusal."""
    if isinstance(error, InfrastructureError):
        sys.stderr.write(redactor.text(str(error)) + "\n")
        return error.exit_code
    wire.send(Refused(reason=redactor.text(str(error)), code=error.code))
    return EXIT_REFUSED


def _units_of(work: Work) -> Callable[[Job], Awaitable[None]]:
    """What does this kind of work. Only its own libraries are loaded: each shard is a new process."""
    if work == "grade":
        from mst.shards.grading import grade_units  # noqa: PLC0415 - as said above

        return grade_units
    from mst.shards.collecting import collect_units  # noqa: PLC0415 - as said above

    return collect_units


def hello() -> Hello:
    """What this worker is."""
    return Hello(
        mst=__version__,
        python=platform.python_version(),
        image=os.environ.get("MST_IMAGE_DIGEST"),
        machine=os.environ.get("MST_MACHINE_ID") or socket.gethostname(),
        plugins={},
        runtimes={"python": platform.python_version()},
    )


def _check(bundle: Bundle, work: Work) -> None:
    record = bundle.record
    if record.work != work:
        raise UsageError(f"this bundle is for {record.work}, not for {work}")
    if record.mst != __version__:
        raise VersionMismatch(
            f"the coordinator has mst {record.mst}, this worker has {__version__}; install the same version on both"
        )
    ours = plugin_versions(record.plan.plugins)
    for name, version in record.plugins.items():
        if ours.get(name) != version:
            raise VersionMismatch(
                f"the coordinator has {name} {version}, this worker has {ours.get(name) or 'none'}; "
                "install the same version on both"
            )


def kill_own_programs() -> None:
    """Kill everything that this process started and that is still alive, as far as it can be found."""
    own = os.environ.get(MARK)
    for pid in marked(own) if own else []:
        if pid != os.getpid():
            with suppress(ProcessLookupError, PermissionError):
                os.kill(pid, signal.SIGKILL)


class _Session:
    """One shard from tokens to `done`."""

    def __init__(self, wire: Wire, bundle: Bundle, results: Path, scratch: Path, *, digest: str,
                 attempt: str | None) -> None:  # fmt: skip
        self._wire = wire
        self._bundle = bundle
        self._results = results
        self._scratch = scratch
        self._digest = digest
        self._attempt = attempt
        self._tokens: asyncio.Future[Mapping[str, str]]
        self._cancel: asyncio.Event
        self._loop: asyncio.AbstractEventLoop
        self._asking = Asking(wire.send, has_budget=bool(bundle.record.plan.budget))
        self._secrets_now: dict[str, str] = {}
        self._redactor = Redactor([])
        self._breaker = Breaker(failed=self._judge_failed, answered=self._asking.answered)
        self._orphaned = False
        self._flush: asyncio.TimerHandle | None = None
        self._ended = threading.Event()

    async def run(self, work: Work) -> int:
        self._loop = asyncio.get_running_loop()
        self._tokens = self._loop.create_future()
        self._cancel = asyncio.Event()
        main = asyncio.current_task()
        assert main is not None
        self._main = main
        self._loop.add_signal_handler(signal.SIGTERM, self._stop, None)
        self._loop.add_signal_handler(signal.SIGINT, lambda: None)
        threading.Thread(target=self._listen, daemon=True, name="mst-stdin").start()
        threading.Thread(target=self._beat, daemon=True, name="mst-heartbeat").start()
        try:
            return await self._work(work)
        finally:
            self._ended.set()
            self._wire.flush()

    async def _work(self, work: Work) -> int:
        tally = Tally()
        job: Job | None = None
        try:
            secrets = await self._secrets(self._bundle.record.secrets)
            job = self._job(secrets, tally)
            await _units_of(work)(job)
        except MstError as error:
            return _give_up(self._wire, error, job.redactor if job is not None else Redactor([]))
        except asyncio.CancelledError:
            if self._orphaned:
                return EXIT_ORPHANED
        self._wire.send(Done(**tally.counts()))
        return 0

    def _renew(self, values: Mapping[str, str]) -> None:
        """Take renewed values: calls from now on get them, and what is written is searched for old and new ones."""
        self._secrets_now.update(values)
        self._redactor.also(values.values())

    def _job(self, secrets: Mapping[str, str], tally: Tally) -> Job:
        self._secrets_now.update(secrets)
        self._redactor.also(secrets.values())
        return Job(
            bundle=self._bundle,
            results=self._results,
            scratch=self._scratch,
            digest=self._digest,
            attempt=self._attempt,
            machine=hello().machine,
            secrets=self._secrets_now,
            redactor=self._redactor,
            cancel=self._cancel,
            send=self._wire.send,
            send_soon=self._send_soon,
            tally=tally,
            asking=self._asking,
            breaker=self._breaker,
        )

    def _send_soon(self, message: Model) -> None:
        self._wire.send(message, at_once=False)
        if self._flush is None:
            self._flush = self._loop.call_later(TOGETHER_S, self._flush_now)

    def _flush_now(self) -> None:
        self._flush = None
        self._wire.flush()

    async def _judge_failed(self, judge: str, kind: GradingFault, message: str) -> None:
        await self._asking.failed(judge, kind, self._redactor.text(message)[:FAULT_MAX])

    async def _secrets(self, names: Sequence[str]) -> Mapping[str, str]:
        if not names:
            return {}
        self._wire.send(NeedTokens(names=list(names)))
        return await self._tokens

    def _listen(self) -> None:
        def told(message: SupervisorMessage) -> None:
            # RuntimeError: the loop has ended, so nobody needs the message any more
            with suppress(RuntimeError):
                self._loop.call_soon_threadsafe(self._receive, message)

        def ended() -> None:
            if self._ended.is_set():
                return
            with suppress(RuntimeError):
                self._loop.call_soon_threadsafe(self._orphan)
            # a grader that holds the interpreter must not keep an orphan alive
            if not self._ended.wait(ORPHAN_GRACE_S):
                kill_own_programs()
                os._exit(EXIT_ORPHANED)

        # not sys.stdin: a read that waits holds its lock, for which the interpreter would wait at its end
        with os.fdopen(os.dup(0), "rb") as stream:
            read_messages(stream, told, ended)

    def _receive(self, message: SupervisorMessage) -> None:
        match message:
            case Tokens() if not self._tokens.done():
                self._tokens.set_result(message.values)
            case Tokens():
                self._renew(message.values)
            case Cancel():
                self._stop(message.grace_s)
            case Granted():
                self._asking.granted(message)
            case Limits():
                self._asking.hold(message.hold)
            case JudgeStopped():
                self._breaker.stop(message.judge, message.reason)
            case JudgeCounted():
                self._asking.counted(message)
            case _:
                return

    def _stop(self, grace_s: float | None) -> None:
        self._cancel.set()
        self._asking.end()
        if grace_s is not None:
            self._loop.call_later(grace_s, self._main.cancel)

    def _orphan(self) -> None:
        self._orphaned = True
        self._main.cancel()

    def _beat(self) -> None:
        while not self._ended.wait(float(os.environ.get("MST_HEARTBEAT_S", HEARTBEAT_S))):
            self._wire.send(Heartbeat(at=datetime.now(UTC).isoformat()))
