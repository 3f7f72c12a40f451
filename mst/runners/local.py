"""The `local` runner: this process, one shard. It runs no shard worker: the coordinator collects and grades itself."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, ClassVar, Self

from pydantic import ConfigDict, Field

from mst.errors import InvariantError
from mst.model.base import Model
from mst.model.shard import Work
from mst.shards.contract import Cancel, RunnerContext, ShardEvents, ShardOutcome, ShardSpec


class LocalOptions(Model):
    """`--runner-option` of the local runner."""

    model_config = ConfigDict(extra="forbid", alias_generator=None)

    shards: int = Field(default=1, ge=1, le=1)
    """One; for more take `--runner process`."""


class LocalRunner:
    """See `mst.shards.contract.Runner`. `in_process` says that nothing is handed out."""

    Options: ClassVar[type[Model]] = LocalOptions
    max_shards: ClassVar[int | None] = 1
    work: ClassVar[frozenset[Work]] = frozenset({"collect", "grade"})
    reads_environment: ClassVar[bool] = True

    @classmethod
    def open(cls, options: LocalOptions, context: RunnerContext) -> Self:  # noqa: ARG003 - the contract's signature
        """Nothing to check."""
        return cls()

    def run(self, shards: Sequence[ShardSpec], events: ShardEvents, cancel: Cancel) -> Sequence[ShardOutcome]:
        """Never called: whoever opens this runner works in-process."""
        raise InvariantError("the local runner runs no shards")

    def follow(
        self,
        shards: Sequence[ShardSpec],
        events: ShardEvents,
        cancel: Cancel,
    ) -> Sequence[ShardOutcome] | None:
        """There are no shards to follow."""
        return None

    def recover(self, shards: Sequence[ShardSpec]) -> None:
        """Verdicts are in the run folder as soon as a case is graded."""

    def recall(self, work: Path) -> None:
        """There are no dispatches."""

    def bring_bundles(self, shards: Sequence[ShardSpec]) -> None:
        """There are none."""

    def recorded_options(self) -> dict[str, Any]:
        """See `Runner.recorded_options`."""
        return {}

    def close(self) -> None:
        """Nothing was taken."""
