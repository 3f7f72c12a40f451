"""The `process` runner: each shard in a child process of this machine."""

from __future__ import annotations

import os
from collections.abc import Sequence
from concurrent.futures import FIRST_EXCEPTION, ThreadPoolExecutor, wait
from functools import partial
from pathlib import Path
from typing import Any, ClassVar, Self

from pydantic import ConfigDict, Field

from mst.model.base import Model
from mst.model.shard import Work
from mst.providers.rates import rates_of
from mst.shards.attempts import run_attempts
from mst.shards.bundle import Bundle
from mst.shards.contract import Cancel, Channel, RunnerContext, ShardEvents, ShardOutcome, ShardSpec
from mst.shards.faults import LocalFaults
from mst.shards.limiter import LocalLimiter
from mst.shards.process_channel import ProcessChannel
from mst.shards.spend import Bill, Budget, LocalSpend
from mst.shards.turns import Turns


class ParallelOptions(Model):
    """What runners of this machine share."""

    model_config = ConfigDict(extra="forbid", alias_generator=None)

    shards: int = Field(default=1, ge=1, le=10_000)
    """How many shards the cases are split into."""
    max_parallel: int | None = Field(default=None, ge=1)
    """How many run at once; as many as this machine has cores when not given."""


class ProcessOptions(ParallelOptions):
    """`--runner-option` of the process runner."""


class ProcessRunner:
    """See `mst.shards.contract.Runner`."""

    Options: ClassVar[type[Model]] = ProcessOptions
    max_shards: ClassVar[int | None] = 10_000
    work: ClassVar[frozenset[Work]] = frozenset({"collect", "grade"})
    reads_environment: ClassVar[bool] = False

    def __init__(self, options: ParallelOptions) -> None:
        self._options = options
        self._limiter = LocalLimiter()
        self._spend = LocalSpend()

    @classmethod
    def open(cls, options: ProcessOptions, context: RunnerContext) -> Self:  # noqa: ARG003 - the contract's signature
        """Nothing to check: the machine is this one."""
        return cls(options)

    def run(self, shards: Sequence[ShardSpec], events: ShardEvents, cancel: Cancel) -> Sequence[ShardOutcome]:
        """Run shards side by side, each under its own supervisor thread."""
        parallel = self._options.max_parallel or os.cpu_count() or 1
        plan = Bundle(shards[0].bundle).record.plan
        turns = partial(
            Turns,
            self._limiter,
            rates_of(plan.rate_limits),
            spend=self._spend,
            budget=Budget.of(plan.budget),
            faults=LocalFaults(),
            told=Bill(events.cost).add,
        )
        with ThreadPoolExecutor(max_workers=parallel, thread_name_prefix="mst-supervisor") as pool:
            running = [
                pool.submit(run_attempts, spec, self._channel, events, cancel, lambda attempt: turns(attempt=attempt))
                for spec in shards
            ]
            try:
                wait(running, return_when=FIRST_EXCEPTION)
                return [future.result() for future in running]
            except BaseException as error:
                # the pool waits for its threads; they need not wait for what their workers are at
                cancel.set(f"left by {type(error).__name__}", grace_s=0)
                raise

    def _channel(self, spec: ShardSpec, attempt: int) -> Channel:
        # beside the results, so that files can be linked back
        return ProcessChannel(spec.results.parent / f"worker-{spec.index}-{attempt}")

    def follow(
        self,
        shards: Sequence[ShardSpec],
        events: ShardEvents,
        cancel: Cancel,
    ) -> Sequence[ShardOutcome] | None:
        """Workers end with their coordinator, so there is nobody to follow."""
        return None

    def recover(self, shards: Sequence[ShardSpec]) -> None:
        """Unit files are brought to their folders as they end: they are there."""

    def recall(self, work: Path) -> None:
        """Shards are sent from this machine alone."""

    def bring_bundles(self, shards: Sequence[ShardSpec]) -> None:
        """They are where they were written."""

    def recorded_options(self) -> dict[str, Any]:
        """See `Runner.recorded_options`."""
        return self._options.model_dump(exclude_none=True)

    def close(self) -> None:
        """End the limiter's thread; channels remove their own folders."""
        self._limiter.close()
