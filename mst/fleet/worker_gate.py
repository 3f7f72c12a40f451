"""A worker leaves messages in their queues while it may take none. They wait there for others, and for itself."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

from mst.fleet.extras import need

MayTake: TypeAlias = Callable[[], bool]


def add_worker_gate(app: Any, may_take: MayTake) -> None:
    """Make workers of this application ask before they ask for the next message, at least every few seconds.

    A request that waits at the broker already is not taken back, so one more message may come for each second.
    """
    bootsteps, tasks = need("celery.bootsteps"), need("celery.worker.consumer.tasks")

    class HoldBack(bootsteps.StartStopStep):  # type: ignore[misc, name-defined]  # the library is untyped
        """Started anew with each connection, as what it changes is made anew then."""

        requires = (tasks.Tasks,)

        def start(self, parent: Any) -> None:
            qos = parent.task_consumer.channel.qos
            has_slot = qos.can_consume
            qos.can_consume = lambda: may_take() and has_slot()

    app.steps["consumer"].add(HoldBack)
