"""What a runner is: a place where shards run. It carries messages and files; it never assembles results."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Coroutine, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar, Literal, Protocol, TypeVar

from mst.model.base import Model
from mst.model.keys import ComparisonKey, TrialKey
from mst.model.shard import Hello, UnitKey, Work

R = TypeVar("R")
LossReason = Literal[
    "protocol",
    "exited",
    "silent",
    "cancelled",
    "version",
    "out_of_memory",
    "disk",
    "time",
    "no_machine",
    "refused",
    "store",
    "lost",
    "budget",
]
Shown = Literal["queued", "starting", "running", "lost", "given_back", "committed", "failed", "cancelled"]
"""`given_back`: its worker stopped as it was told to, or had to, and took care of what it had finished."""
TERMINAL: frozenset[LossReason] = frozenset({"version", "refused", "cancelled", "budget"})
"""Reasons that no other attempt would change."""


@dataclass(frozen=True, kw_only=True)
class ShardSpec:
    """One shard to run.

    Attributes:
        dispatch: `d<n>`, the sending-out that it belongs to.
        bundle: the bundle as a folder, as `mst.shards.bundle` writes it; gone when a dispatch is only followed.
        digest: of the bundle; units name it.
        planned: keys of all its units; every one needs a record.
        results: folder for what comes back, by unit name; units that lie there already are not done again.
        secrets: names that the work needs; their values come through `ShardEvents.tokens`.
    """

    work: Work
    run_id: str
    eval_name: str
    dispatch: str
    index: int
    count: int
    bundle: Path
    digest: str
    planned: Sequence[UnitKey]
    results: Path
    secrets: Sequence[str] = ()


@dataclass(frozen=True, kw_only=True)
class UnitDone:
    """A unit's file is back and durable here (or, for a fleet, in the store)."""

    shard: int
    key: UnitKey
    status: Literal["collected", "infra", "graded", "failed"]
    passed: bool | None = None


@dataclass(frozen=True, kw_only=True)
class ShardState:
    """A shard has come to a new state, for people to see."""

    shard: int
    state: Shown
    attempt: str | None = None
    machine: str | None = None
    reason: str | None = None


@dataclass(frozen=True, kw_only=True)
class ShardOutcome:
    """How a shard ended. Never an exception: a lost machine is an outcome.

    Attributes:
        ok: every planned unit has a record.
        reason, detail: why not, as a word and in words.
        counts: units by status.
        hello: of the worker that ran last.
        attempts: attempt IDs in order.
        wasted_tokens, wasted_usd: what attempts used for units that do not count.
    """

    shard: int
    ok: bool
    reason: LossReason | None = None
    detail: str | None = None
    counts: Mapping[str, int] = field(default_factory=dict)
    hello: Hello | None = None
    started_at: str | None = None
    ended_at: str | None = None
    attempts: Sequence[str] = ()
    wasted_tokens: int = 0
    wasted_usd: float = 0.0


class ShardEvents(Protocol):
    """Whom a runner tells. Methods may be called from any thread and must return quickly."""

    def unit(self, done: UnitDone) -> None:
        """A unit's file is durable."""
        ...

    def state(self, state: ShardState) -> None:
        """A shard has come to a new state."""
        ...

    def count(self, shard: int, done: int) -> None:
        """So many units of a shard are durable, where single units are not heard of (a fleet's)."""
        ...

    def planned(self, units: int) -> None:
        """So many units are sent out or followed: time left is reckoned from it."""
        ...

    def cost(self, usd: float) -> None:
        """So much was spent so far, as far as units said what they cost."""
        ...

    def note(self, text: str) -> None:
        """Something that a person should know, in one line."""
        ...

    def tokens(self, shard: int, names: Sequence[str]) -> Mapping[str, str]:
        """Values of secrets that a worker asked for."""
        ...


class Cancel:
    """A request to stop: set once, with a reason and the grace for units in flight. Safe from any thread."""

    def __init__(self) -> None:
        self._event = threading.Event()
        self._running: asyncio.Task[Any] | None = None
        self._is_left = False
        self.reason = ""
        self.grace_s: float | None = None

    def set(self, reason: str, grace_s: float | None = None) -> None:
        """Ask to stop. `grace_s` None lets units in flight take their own time limit; a second call may shorten it."""
        self.reason, self.grace_s = reason, grace_s
        self._event.set()

    def is_set(self) -> bool:
        """Whether it was asked for."""
        return self._event.is_set()

    def wait(self, timeout_s: float) -> bool:
        """Wait for it at most this long; returns whether it was asked for."""
        return self._event.wait(timeout_s)

    def run(self, main: Coroutine[Any, Any, R]) -> R:
        """What `asyncio.run` does, in the main thread, and `leave` ends it.

        Raises:
            KeyboardInterrupt: `leave` was called; everybody has cleaned up.
        """

        async def running() -> R:
            self._running = asyncio.current_task()
            try:
                return await main
            finally:
                self._running = None

        try:
            return asyncio.run(running())
        except asyncio.CancelledError:
            if self._is_left:
                raise KeyboardInterrupt from None
            raise

    def leave(self) -> None:
        """Have `run` cancelled as a whole; for a signal's handler.

        An error out of the handler would hit whatever a task is just doing, its clearing away too, and end the event
        loop under the others.

        Raises:
            KeyboardInterrupt: nothing runs; or this is the second call, and whoever clears away does so for too long.
        """
        if self._running is None or self._is_left:
            raise KeyboardInterrupt
        self._is_left = True
        self._running.get_loop().call_soon_threadsafe(self._running.cancel)


@dataclass(frozen=True, kw_only=True)
class RunnerContext:
    """What a runner may know of the run.

    Attributes:
        scratch: a private folder that is removed when the run is assembled.
        results_root: of the run, on this machine.
        environment: of the process: broker, store and key settings.
        secrets_file: read again when credentials expire.
        say: told what a person should read before the first shard is sent.
    """

    run_id: str
    eval_name: str
    work: Work
    scratch: Path
    results_root: Path
    environment: Mapping[str, str]
    secrets_file: Path | None = None
    say: Callable[[str], None] = lambda _text: None


class Runner(Protocol):
    """Where shards run.

    Class attributes:
        Options: schema of `--runner-option`; all strings in.
        max_shards: most shards that it takes; None for no limit.
        work: kinds of work that its shards can do.
        reads_environment: whether secrets may come from the coordinator's environment: only the one in-process.
    """

    Options: ClassVar[type[Model]]
    max_shards: ClassVar[int | None]
    work: ClassVar[frozenset[Work]]
    reads_environment: ClassVar[bool]

    @classmethod
    def open(cls, options: Any, context: RunnerContext) -> Runner:
        """Get ready to run shards: check machines and servers.

        Raises:
            UsageError: an option is wrong.
            InfrastructureError: what it needs cannot be reached.
        """
        ...

    def run(self, shards: Sequence[ShardSpec], events: ShardEvents, cancel: Cancel) -> Sequence[ShardOutcome]:
        """Send out one dispatch: run all shards, return their outcomes in the same order. Blocks until all have ended.

        Lost shards are sent out again as far as the limits allow. Unit files are in each spec's `results` at the end,
        and as soon as they are reported.

        Raises:
            UsageError, RunnerError: nothing was sent out.
        """
        ...

    def follow(self, shards: Sequence[ShardSpec], events: ShardEvents, cancel: Cancel) -> Sequence[ShardOutcome] | None:
        """Go on with a dispatch whose coordinator is gone, as `run` would have.

        Returns:
            None when nobody can be working on it any more; `recover` then brings what it finished.
        """
        ...

    def recover(self, shards: Sequence[ShardSpec]) -> None:
        """Bring the finished units of an earlier dispatch's shards to their `results` folders. Idempotent.

        Nobody may be working on them any more when this returns.
        """
        ...

    def recall(self, work: Path) -> None:
        """Make the dispatches that other machines sent for this run known in its work folder, by their plans.

        Idempotent.
        """
        ...

    def bring_bundles(self, shards: Sequence[ShardSpec]) -> None:
        """Have the bundles of an earlier dispatch's shards in their folders. Idempotent."""
        ...

    def recorded_options(self) -> dict[str, Any]:
        """What `run.json` says of the options: no passwords."""
        ...

    def close(self) -> None:
        """Give back what `open` took. Safe to call twice."""
        ...


class WorkerProcess(Protocol):
    """A running shard worker, seen over a channel."""

    def send(self, line: bytes) -> None:
        """Write a line to its stdin. Silent when it has ended."""
        ...

    def lines(self) -> Iterator[bytes]:
        """Its stdout, line by line without the newline, until it ends. Lines over the bound raise ValueError.

        Iterated once, by one thread; what was open for it is closed when the iteration ends.
        """
        ...

    def stderr_tail(self) -> str:
        """The last KiB of its stderr, as it wrote them: nobody may see them before secrets are taken out."""
        ...

    def close_stdin(self) -> None:
        """Tell it that nothing more comes."""
        ...

    def kill(self) -> None:
        """End it and everything that it started, now. Safe to call twice."""
        ...

    def wait(self, timeout_s: float) -> int | None:
        """Its exit code, or None when it still runs after the timeout."""
        ...

    def ran_out_of_memory(self) -> bool:
        """Once it has ended: whether its machine says that it, or what it started, was ended for its memory."""
        ...


class Channel(Protocol):
    """The way to one machine: start a worker there, bring files there and back."""

    machine: str

    def start(self, argv: Sequence[str], *, bundle: Path, results: Path) -> WorkerProcess:
        """Bring a bundle folder to the machine and start a worker on it.

        Args:
            argv: `collect` or `grade-shard` with options; the channel adds the program and its folders.
            bundle: local folder.
            results: local folder; units that lie there are brought to the worker's results folder first.

        Raises:
            RunnerError: no worker could be started.
        """
        ...

    def get(self, relative: str, into: Path) -> None:
        """Bring one announced file of the results folder back, atomically.

        Raises:
            RunnerError: it is not there or is too large.
        """
        ...

    def put(self, source: Path, relative: str) -> str:
        """Bring one file to the machine, below its inbox; returns the path that the worker can read."""
        ...

    def close(self) -> None:
        """Remove what was brought there. Safe to call twice."""
        ...


MakeChannel = Callable[[ShardSpec], Channel]

__all__ = [
    "TERMINAL",
    "Cancel",
    "Channel",
    "ComparisonKey",
    "LossReason",
    "MakeChannel",
    "Runner",
    "RunnerContext",
    "ShardEvents",
    "ShardOutcome",
    "ShardSpec",
    "ShardState",
    "TrialKey",
    "UnitDone",
    "WorkerProcess",
]
