"""Sending a grading out and leaving it: another process attaches later, maybe on a machine that has only the store."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NoReturn

from mst.errors import UsageError
from mst.shards.contract import Cancel, ShardEvents, ShardSpec


class Detached(Exception):
    """The dispatch was sent, and nobody waits for it here."""

    def __init__(self, run_id: str, dispatch: str, shards: int) -> None:
        super().__init__(f"{run_id} goes on as {dispatch}")
        self.run_id = run_id
        self.dispatch = dispatch
        self.shards = shards


class Detaching:
    """A runner that sends and does not wait: `run` ends with `Detached`. For the rest it is the runner given to it.

    Args:
        runner: one that can `send`.
        publish: called with the run ID before anything is sent; puts into the store what another machine needs.
    """

    def __init__(self, runner: Any, publish: Callable[[str], None]) -> None:
        if not hasattr(runner, "send"):
            raise UsageError("--detach: only shards on a fleet go on without this command; use --runner celery")
        self._runner = runner
        self._publish = publish

    def __getattr__(self, name: str) -> Any:
        return getattr(self._runner, name)

    def run(self, shards: Sequence[ShardSpec], events: ShardEvents, cancel: Cancel) -> NoReturn:
        """Publish, send, and leave.

        Raises:
            Detached: the dispatch is on its way.
            UsageError, InfrastructureError: nothing was sent.
        """
        del cancel
        self._publish(shards[0].run_id)
        self._runner.send(shards, events)
        raise Detached(shards[0].run_id, shards[0].dispatch, len(shards))
