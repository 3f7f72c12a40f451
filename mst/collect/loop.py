"""Working through the trials of a run or a shard: a few at a time, each stored before it counts."""

from __future__ import annotations

import asyncio
import inspect
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Protocol

from mst.clients.contract import Client
from mst.collect.context import RunContext
from mst.collect.effective import client_key, effective_variant
from mst.collect.identity import Setting, setting_of
from mst.collect.retrying import joined, may_retry, pause_s
from mst.collect.trial import Collected, collect_trial
from mst.config.registry import lookup
from mst.model.case import Case, EvalPlan, Variant
from mst.model.keys import TrialKey
from mst.process.finishing import in_thread
from mst.process.stop import Stop
from mst.process.together import together

Sink = Callable[[Collected], Awaitable[None] | None]
"""Makes a trial durable: it counts when this has returned. May move the artifacts; what it leaves is deleted."""
_CANCEL_LOOK_S = 0.2
Started = Callable[[TrialKey], Awaitable[None] | None]


class CaseLookup(Protocol):
    """Finds a case by its ID: a dict, or a file of cases."""

    def __getitem__(self, case_id: str, /) -> Case:
        """The case of this ID; KeyError when there is none."""
        ...


@dataclass
class Counts:
    """How the trials ended.

    Attributes:
        collected: have something to show to graders, a failed program's trials included.
        infra: a machine's or our own fault; to be collected again.
        incomplete: nothing to score.
        not_started: were still to do when the loop was stopped.
    """

    collected: int = 0
    infra: int = 0
    incomplete: int = 0
    not_started: int = 0

    def add(self, collected: Collected) -> None:
        """Count one trial."""
        if collected.record.infrastructure_error:
            self.infra += 1
        elif collected.record.status == "incomplete":
            self.incomplete += 1
        else:
            self.collected += 1


@dataclass(kw_only=True)
class _Work:
    plan: EvalPlan
    cases: CaseLookup
    todo: Iterator[TrialKey]
    context: RunContext
    sink: Sink
    on_start: Started | None
    cancel: Stop
    fail_fast: bool
    case_digest: Callable[[str], str | None]
    make_client: Callable[[Variant], Client]
    pause_scale: float
    counts: Counts = field(default_factory=Counts)
    clients: dict[str, Client] = field(default_factory=dict)
    settings: dict[str, asyncio.Future[Setting]] = field(default_factory=dict)
    stopped: bool = False

    async def work(self) -> None:
        """Take trials until there are none, or nobody wants more."""
        while not (self.stopped or self.cancel.is_set()):
            key = next(self.todo, None)
            if key is None:
                return
            await self._one(key)
            # A client that never waits must not keep the loop from hearing a cancellation.
            await asyncio.sleep(0)

    async def _one(self, key: TrialKey) -> None:
        if self.on_start is not None:
            await _maybe(self.on_start(key))
            if self.cancel.is_set():
                self.counts.not_started += 1
                return
        case = self.cases[key.case_id]
        variant = effective_variant(case, self.plan.variant(key.variant))
        collected = await self._attempts(case, variant, key)
        try:
            await _maybe(self.sink(collected))
        finally:
            collected.discard()
        self.counts.add(collected)
        if self.fail_fast and collected.record.status != "completed":
            self.stopped = True

    async def _attempts(self, case: Case, variant: Variant, key: TrialKey) -> Collected:
        """Make a trial, and make it again while the machine breaks it and that is allowed."""
        before: list[Collected] = []
        try:
            while True:
                last = await self._attempt(case, variant, key)
                made = len(before) + 1
                if not may_retry(last.record, made=made, retries=self.plan.retries):
                    return joined(before, last)
                if not await self._waited(pause_s(made) * self.pause_scale):
                    return joined(before, last)
                before.append(last)
        except BaseException:
            for attempt in before:
                attempt.discard()
            raise

    async def _waited(self, pause: float) -> bool:
        """Wait before another attempt; False when nobody wants one any more."""
        until = time.monotonic() + pause
        while (left := until - time.monotonic()) > 0 and not self.cancel.is_set():  # noqa: ASYNC110 - a Stop can't be awaited
            await asyncio.sleep(min(left, _CANCEL_LOOK_S))
        return not self.cancel.is_set()

    async def _attempt(self, case: Case, variant: Variant, key: TrialKey) -> Collected:
        return await collect_trial(
            case,
            variant,
            key.trial,
            client=self._client(case, variant),
            context=self.context,
            setting=await self._setting(case, variant),
            case_digest=self.case_digest(key.case_id),
        )

    async def _setting(self, case: Case, variant: Variant) -> Setting:
        key = client_key(case, variant)
        if key not in self.settings:
            work = in_thread(setting_of, variant, self._client(case, variant), self.context.files)
            self.settings[key] = asyncio.ensure_future(work)
        return await asyncio.shield(self.settings[key])

    def _client(self, case: Case, variant: Variant) -> Client:
        key = client_key(case, variant)
        if key not in self.clients:
            self.clients[key] = self.make_client(variant)
        return self.clients[key]


async def collect(
    plan: EvalPlan,
    cases: CaseLookup,
    todo: Iterable[TrialKey],
    context: RunContext,
    *,
    sink: Sink,
    cancel: Stop,
    on_start: Started | None = None,
    fail_fast: bool = False,
    case_digest: Callable[[str], str | None] = lambda _case_id: None,
    make_client: Callable[[Variant], Client] | None = None,
    pause_scale: float = 1.0,
) -> Counts:
    """Collect trials in the order given, `plan.concurrency` at a time. Memory does not grow with their number.

    One trial's failure never ends the loop. When `cancel` is set, no trial starts any more and those in flight end in
    their own time; cancelling the task kills them. Clients are made once per variant (and per distinct override of a
    case), and closed at the end.

    Args:
        todo: read lazily.
        context: its secrets are removed from everything that reaches the sink.
        on_start: told before a trial starts; may wait, for room under a limit for instance. A trial does not start when
            `cancel` is set meanwhile.
        fail_fast: start no more after the first trial that did not complete.
        case_digest: of a case by its ID, where it is known already; made of the case where it is not.
        make_client: from the registry unless given.
        pause_scale: of the pauses before a trial is made again (the plan's `retries`).

    Raises:
        ConfigError: a client can't be made from its options.
        Exception: whatever the sink raises: what can't be stored must not go on being paid for.
    """
    work = _Work(
        plan=plan,
        cases=cases,
        todo=iter(todo),
        context=context,
        sink=sink,
        on_start=on_start,
        cancel=cancel,
        fail_fast=fail_fast,
        case_digest=case_digest,
        make_client=make_client or client_of,
        pause_scale=pause_scale,
    )
    async with _closing(work.clients):
        await together(work.work() for _ in range(max(1, plan.concurrency)))
    work.counts.not_started += sum(1 for _ in work.todo)
    return work.counts


def client_of(variant: Variant) -> Client:
    """The variant's client, made from the registry.

    Raises:
        ConfigError: unknown client, missing package, or options that are not its own.
    """
    client: Client = lookup("clients", variant.client)(variant)
    return client


@asynccontextmanager
async def _closing(clients: dict[str, Client]) -> AsyncIterator[None]:
    try:
        yield
    finally:
        for client in clients.values():
            await client.close()


async def _maybe(value: Awaitable[None] | None) -> None:
    if inspect.isawaitable(value):
        await value
