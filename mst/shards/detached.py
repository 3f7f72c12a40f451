"""Sending shards out and leaving them: another process attaches later, maybe on a machine that has only the store."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NoReturn

from mst.errors import RunnerError, StoreError
from mst.shards.contract import Cancel, ShardEvents, ShardSpec


class Detached(Exception):
    """The dispatch was sent, and nobody waits for it here."""

    def __init__(self, first: ShardSpec, shards: int) -> None:
        super().__init__(f"{first.run_id} goes on as {first.dispatch}")
        self.run_id = first.run_id
        self.work = first.work
        self.dispatch = first.dispatch
        self.shards = shards


class Detaching:
    """A runner that sends and does not wait: `run` ends with `Detached`. For the rest it is the runner given to it.

    Args:
        runner: one that can `send`.
        publish: called with the run ID before anything is sent; puts into the store what another machine needs.
    """

    def __init__(self, runner: Any, publish: Callable[[str], None]) -> None:
        self._runner = runner
        self._publish = publish

    def __getattr__(self, name: str) -> Any:
        return getattr(self._runner, name)

    def run(self, shards: Sequence[ShardSpec], events: ShardEvents, cancel: Cancel) -> NoReturn:
        """Publish, send, and leave.

        Raises:
            Detached: the dispatch is on its way.
            UsageError, RunnerError: nothing was sent.
        """
        del cancel

        def publish() -> None:
            try:
                self._publish(shards[0].run_id)
            except StoreError as error:
                raise RunnerError(f"nothing was sent: {error}") from error

        self._runner.send(shards, events, before=publish)
        raise Detached(shards[0], len(shards))
