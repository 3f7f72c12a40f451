"""The supervisor of one shard worker: speaks the protocol, brings files back, and ends with an outcome.

It runs wherever the channel is: in the coordinator for local processes, inside a Celery task on the fleet. Each
announced file is back before anybody is told of it, so a lost channel loses at most the units in flight.
"""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from pydantic import ValidationError

from mst import __version__
from mst.errors import InfrastructureError, StoreError, VersionMismatch
from mst.model import shard as wire
from mst.model.shard import SILENCE_S, UnitKey, WorkerMessage, worker_message
from mst.process.lastwords import last_words
from mst.process.redact import Redactor
from mst.shards.contract import Cancel, Channel, LossReason, ShardSpec, UnitDone, WorkerProcess
from mst.shards.inbox import Inbox
from mst.shards.turns import Turns

POLL_S = 0.1
EXIT_GRACE_S = 10.0
UNLIMITED_GRACE_S = 24 * 3600.0
STDERR_KEPT = 4096


@dataclass(frozen=True, kw_only=True)
class AttemptOutcome:
    """How one attempt ended.

    Attributes:
        ok: the worker said `done`, and nothing was cancelled.
        in_flight: units that had started and have no record.
        finished: units that this attempt brought back.
    """

    ok: bool
    reason: LossReason | None = None
    detail: str | None = None
    counts: Mapping[str, int] = field(default_factory=dict)
    hello: wire.Hello | None = None
    in_flight: Sequence[UnitKey] = ()
    finished: int = 0


@dataclass(frozen=True, kw_only=True)
class Handlers:
    """What the supervisor asks of whoever started it. All are called from the supervising thread.

    Attributes:
        unit: a unit's files are back, under these local paths (the unit's own first); return once it may be counted.
        tokens: values of secrets by name.
        started: a unit began.
        fetch: finds a file that the worker asked for by digest.
        turns: limits and budget; without it everything starts at once.
        fresh: renewed values of secrets to hand on, once; None while there are none. Asked all the time.
        hold: whether no further unit should start for now. Asked all the time.
        overuse: which bound of this machine the shard has passed, and in words. Asked all the time; ends the attempt.
    """

    unit: Callable[[UnitDone, Sequence[Path]], None]
    tokens: Callable[[Sequence[str]], Mapping[str, str]]
    started: Callable[[UnitKey], None] = lambda _key: None
    hello: Callable[[wire.Hello], None] = lambda _hello: None
    fetch: Callable[[str], Path] | None = None
    turns: Turns | None = None
    fresh: Callable[[], Mapping[str, str] | None] = lambda: None
    hold: Callable[[], bool] = lambda: False
    overuse: Callable[[], tuple[LossReason, str] | None] = lambda: None


def supervise(
    spec: ShardSpec,
    channel: Channel,
    handlers: Handlers,
    cancel: Cancel,
    *,
    attempt: str | None = None,
    silence_s: float = SILENCE_S,
) -> AttemptOutcome:
    """Run one attempt at a shard to its end. Never raises for what happens on the machine: that is an outcome.

    Args:
        spec: the shard; unit files are brought to `spec.results`.
        channel: to the machine.
        handlers: see there. An error of theirs ends the attempt (a StoreError with reason `store`).
        cancel: passed on once as the protocol's cancel; at the end of its grace the worker is killed.
        attempt: ID for the units of this attempt.
        silence_s: the worker is killed when nothing came for so long.
    """
    command = "collect" if spec.work == "collect" else "grade-shard"
    argv = [command, "--digest", spec.digest, *(["--attempt", attempt] if attempt else [])]
    try:
        process = channel.start(argv, bundle=spec.bundle, results=spec.results)
    except InfrastructureError as error:
        return AttemptOutcome(ok=False, reason="no_machine", detail=str(error))
    session = _Session(spec, channel, process, handlers, cancel, silence_s)
    try:
        return session.run()
    finally:
        process.kill()
        if handlers.turns is not None:
            handlers.turns.close()


class _Ended(Exception):
    """The attempt is over for this reason."""

    def __init__(self, reason: LossReason, detail: str) -> None:
        super().__init__(detail)
        self.reason: LossReason = reason


class _Session:
    def __init__(self, spec: ShardSpec, channel: Channel, process: WorkerProcess, handlers: Handlers, cancel: Cancel,
                 silence_s: float) -> None:  # fmt: skip
        self._spec = spec
        self._channel = channel
        self._process = process
        self._handlers = handlers
        self._cancel = cancel
        self._silence_s = silence_s
        self._inbox = Inbox()
        self._redactor = Redactor([])
        self._given: set[str] = set()
        self._holds = False
        self._hello: wire.Hello | None = None
        self._done: wire.Done | None = None
        self._in_flight: dict[UnitKey, None] = {}
        self._counts: Counter[str] = Counter()
        self._heard = time.monotonic()
        self._kill_at: float | None = None
        self._planned = set(spec.planned)

    def run(self) -> AttemptOutcome:
        threading.Thread(target=self._read, daemon=True, name=f"mst-shard-{self._spec.index}").start()
        try:
            while self._step():
                pass
            return self._outcome(*self._close())
        except _Ended as ended:
            return self._outcome(ended.reason, str(ended))
        except StoreError as error:
            return self._outcome("store", str(error))
        finally:
            self._inbox.close()

    def _read(self) -> None:
        try:
            for line in self._process.lines():
                if not self._inbox.put(line):
                    return
        except (ValueError, OSError) as error:
            self._inbox.put(error)
        self._inbox.put(None)

    def _step(self) -> bool:
        """Handle the lines that are there, or the passing of time. Returns whether the worker still talks."""
        self._pass_cancel_on()
        if (over := self._handlers.overuse()) is not None:
            raise _Ended(*over)
        if self._handlers.hold() != self._holds:
            self._holds = not self._holds
            self._process.send(_line(wire.Limits(hold=self._holds)))
        if (values := self._handlers.fresh()) is not None:
            self._hand_out_again(values)
        lines = self._inbox.take(POLL_S)
        if not lines:
            self._check_silence()
            if self._handlers.turns is not None:
                self._handlers.turns.tick()
            return True
        self._heard = time.monotonic()
        return all(self._hear(line) for line in lines)

    def _hear(self, line: bytes | Exception | None) -> bool:
        """Handle one line. Returns whether the worker still talks."""
        if line is None:
            return False
        if isinstance(line, Exception):
            raise _Ended("protocol", str(line))
        if line.startswith(b"{"):
            self._receive(self._parse(line))
        return self._done is None

    def _parse(self, line: bytes) -> WorkerMessage:
        try:
            message = worker_message.validate_json(line)
        except ValidationError as error:
            head = line[:200].decode("utf-8", "replace")
            raise _Ended("protocol", f"the worker sent a line that is no message: {head}") from error
        if self._hello is None and not isinstance(message, wire.Hello):
            raise _Ended("protocol", f"the worker sent {message.type!r} before it said hello")
        return message

    def _pass_cancel_on(self) -> None:
        if not self._cancel.is_set():
            return
        grace_s = self._cancel.grace_s
        until = time.monotonic() + (UNLIMITED_GRACE_S if grace_s is None else grace_s + min(EXIT_GRACE_S, grace_s))
        if self._kill_at is None:
            self._process.send(_line(wire.Cancel(reason=self._cancel.reason, grace_s=grace_s)))
            self._kill_at = until
        self._kill_at = min(self._kill_at, until)
        if time.monotonic() >= self._kill_at:
            raise _Ended("cancelled", self._cancel.reason)

    def _check_silence(self) -> None:
        if time.monotonic() - self._heard > self._silence_s:
            raise _Ended("silent", f"the worker sent nothing for {self._silence_s:.0f} s; its machine may be gone")

    def _receive(self, message: WorkerMessage) -> None:
        match message:
            case wire.Hello():
                self._greet(message)
            case wire.NeedTokens():
                self._hand_out(message.names)
            case wire.NeedFile():
                self._bring(message.sha256)
            case wire.Acquire() | wire.Released() | wire.Paused() | wire.UsageReport():
                self._ask_for_turns(message)
            case wire.JudgeFailed() | wire.JudgeAnswered():
                self._hear_of_judge(message)
            case wire.Started():
                self._in_flight[message.key] = None
                self._handlers.started(message.key)
            case wire.TrialDone() | wire.Graded():
                self._take(message)
            case wire.Done():
                self._done = message
                self._process.close_stdin()
            case wire.Refused():
                reason: LossReason = "version" if message.code == VersionMismatch.code else "refused"
                raise _Ended(reason, message.reason)

    def _ask_for_turns(self, message: wire.Acquire | wire.Released | wire.Paused | wire.UsageReport) -> None:
        if self._handlers.turns is not None:
            self._handlers.turns.hear(message, self._answer)
        elif isinstance(message, wire.Acquire):
            self._answer(wire.Granted(key=message.key, call=message.call))

    def _hear_of_judge(self, message: wire.JudgeFailed | wire.JudgeAnswered) -> None:
        stop = self._handlers.turns.judged(message) if self._handlers.turns is not None else None
        if stop is not None:
            self._process.send(_line(stop))
        if isinstance(message, wire.JudgeFailed):
            self._process.send(_line(wire.JudgeCounted(fault=message.fault)))

    def _answer(self, granted: wire.Granted) -> None:
        self._process.send(_line(granted))

    def _greet(self, hello: wire.Hello) -> None:
        if hello.protocol != wire.SHARD_FORMAT:
            raise _Ended("version", f"the worker speaks {hello.protocol}, this mst {wire.SHARD_FORMAT}")
        if hello.mst != __version__:
            raise _Ended("version", f"the worker has mst {hello.mst}, the coordinator {__version__}")
        self._hello = hello
        self._handlers.hello(hello)
        for stop in self._handlers.turns.stopped() if self._handlers.turns is not None else ():
            self._process.send(_line(stop))

    def _hand_out(self, names: Sequence[str]) -> None:
        self._hand_out_again(self._handlers.tokens(names))

    def _hand_out_again(self, values: Mapping[str, str]) -> None:
        # what was handed out before may still be in what the worker says
        self._given.update(values.values())
        self._redactor = Redactor(self._given)
        self._process.send(_line(wire.Tokens(values=dict(values))))

    def _bring(self, sha256: str) -> None:
        try:
            if self._handlers.fetch is None:
                raise InfrastructureError(f"no file with digest {sha256} is to be had here")
            answer = wire.FileReady(sha256=sha256, path=self._channel.put(self._handlers.fetch(sha256), sha256))
        except InfrastructureError as error:
            answer = wire.FileReady(sha256=sha256, error=str(error))
        self._process.send(_line(answer))

    def _take(self, message: wire.TrialDone | wire.Graded) -> None:
        if message.key not in self._planned:
            raise _Ended("protocol", f"the worker sent a unit that is not in its plan: {message.key}")
        extra = message.files if isinstance(message, wire.TrialDone) else []
        paths = []
        for relative in (*extra, message.path):
            target = self._spec.results / _inside(relative)
            self._bring_back(relative, target)
            paths.append(target)
        passed = message.passed if isinstance(message, wire.Graded) else None
        done = UnitDone(shard=self._spec.index, key=message.key, status=message.status, passed=passed)
        self._handlers.unit(done, paths[::-1])
        self._in_flight.pop(message.key, None)
        self._counts[message.status] += 1

    def _bring_back(self, relative: str, target: Path) -> None:
        try:
            self._channel.get(relative, target)
        except InfrastructureError as error:
            raise _Ended("lost", f"{relative}: {error}") from error

    def _close(self) -> tuple[LossReason | None, str | None]:
        code = self._process.wait(EXIT_GRACE_S)
        if self._done is not None:
            # a forced exit after done is no failure: all that was announced is here
            if self._cancel.is_set():
                return "cancelled", self._cancel.reason
            if self._handlers.turns is not None and self._handlers.turns.refused:
                return "budget", self._handlers.turns.refused
            if self._done.cancelled:
                return (
                    "lost",
                    f"the worker was told by its machine to stop, {self._done.cancelled} units before the end",
                )
            return None, None
        if self._cancel.is_set():
            return "cancelled", self._cancel.reason
        tail = last_words(self._redactor.text(self._process.stderr_tail()), limit=STDERR_KEPT)
        ran_out = self._process.ran_out_of_memory()
        what = "used more memory than it may" if ran_out else "exited early"
        detail = f"the worker {what} (code {code})" + (f": {tail}" if tail else "")
        return ("out_of_memory" if ran_out or (code == -9 and _looks_oom(tail)) else "exited"), detail

    def _outcome(self, reason: LossReason | None, detail: str | None) -> AttemptOutcome:
        return AttemptOutcome(
            ok=reason is None,
            reason=reason,
            detail=None if detail is None else self._redactor.text(detail),
            counts=dict(self._counts),
            hello=self._hello,
            in_flight=tuple(self._in_flight),
            finished=sum(self._counts.values()),
        )


def _looks_oom(tail: str) -> bool:
    return "MemoryError" in tail or "Cannot allocate memory" in tail


def _inside(relative: str) -> str:
    if relative.startswith("/") or ".." in relative.split("/"):
        raise _Ended("protocol", f"the worker announced a file outside its results: {relative}")
    return relative


def _line(message: wire.SupervisorMessage) -> bytes:
    return message.model_dump_json(exclude_none=True).encode() + b"\n"
