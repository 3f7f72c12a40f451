"""Queues that a cloud's scale rule serves: no worker may be there now, and one comes when a shard waits."""

from __future__ import annotations

from collections.abc import Iterable

from mst.fleet.connect import RedisClient
from mst.fleet.ledger_keys import DEFAULT_PREFIX, Keys
from mst.fleet.scripts import Scripts


class ScaleRules:
    """Live keys of scalers. Raises `BrokerError` when Redis does not answer."""

    def __init__(self, client: RedisClient, prefix: str = DEFAULT_PREFIX) -> None:
        self._keys = Keys(prefix)
        self._scripts = Scripts(client)

    def announce(self, pool: str, queues: Iterable[str], *, ttl_s: float) -> None:
        """For a scaler, each time it publishes: what waits in these queues starts machines of this pool."""
        for queue in queues:
            args: list[str | int] = [pool, int(ttl_s * 1000)]
            self._scripts.run("present", [self._keys.scalers(queue)], args, doing=f"announcing the pool {pool}")

    def pools(self, queue: str) -> list[str]:
        """For a coordinator before it sends: the pools that start machines for a queue."""
        return list(self._scripts.run("live_workers", [self._keys.scalers(queue)], [], doing=f"looking at {queue}"))
