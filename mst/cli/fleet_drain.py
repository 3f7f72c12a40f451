"""Asking workers to end, from `mst fleet drain`."""

from __future__ import annotations

from collections.abc import Sequence

from mst.errors import UsageError


def ask(workers: Sequence[str], *, everyone: bool, worker_class: str | None) -> list[str]:
    """Ask workers to end after their units under way; returns whom.

    Raises:
        UsageError: nobody was named, or somebody who is not there.
        BrokerError: no answer.
    """
    from mst import __version__
    from mst.config.settings import Settings
    from mst.fleet.connect import connect
    from mst.fleet.presence import Presence
    from mst.fleet.queues import queue_name

    broker_url = Settings.from_environment().broker_url
    if broker_url is None:
        raise UsageError("MST_BROKER_URL is not set: it names the fleet's broker")
    if bool(workers) == everyone:
        raise UsageError("name the workers that should end, or all of them with --all")
    client = connect(broker_url)
    try:
        presence = Presence(client)
        queues = [
            queue_name("collect", mst_version=__version__, worker_class=worker_class),
            queue_name("grade", mst_version=__version__, worker_class=worker_class),
        ]
        there = {name for queue in queues for name in presence.workers(queue)}
        absent = sorted(set(workers) - there)
        if absent:
            raise UsageError(f"no worker {', '.join(absent)} serves this version's queues: {', '.join(sorted(there))}")
        asked = sorted(there if everyone else set(workers))
        for name in asked:
            presence.ask_to_drain(name)
        return asked
    finally:
        client.close()
