"""Who is there: workers by queue, for how long a queue is empty, and short locks that elect one janitor."""

from __future__ import annotations

from collections.abc import Iterable

from mst.fleet.connect import RedisClient, broker_errors
from mst.fleet.ledger_keys import DEFAULT_PREFIX, Keys
from mst.fleet.scripts import Scripts

IDLE_NOTE_MS = 24 * 3600 * 1000
DRAIN_ASKED_S = 3600


class Presence:
    """Live keys and locks. Thread-safe; raises `BrokerError` when Redis does not answer."""

    def __init__(self, client: RedisClient, prefix: str = DEFAULT_PREFIX) -> None:
        self.keys = Keys(prefix)
        self._client = client
        self._scripts = Scripts(client)

    def announce(self, worker: str, queue: str, *, ttl_s: float) -> None:
        """For a worker, every third of `ttl_s`: it serves this queue."""
        args: list[str | int] = [worker, int(ttl_s * 1000)]
        self._scripts.run("present", [self.keys.workers(queue)], args, doing=f"announcing {worker}")

    def is_known(self, worker: str, queues: Iterable[str]) -> bool:
        """For a worker, often: whether the broker still knows what it announced. A wiped one does not."""
        with broker_errors(f"looking for {worker}"):
            return all(self._client.zscore(self.keys.workers(queue), worker) is not None for queue in queues)

    def leave(self, worker: str, queue: str) -> None:
        """For a worker that takes no more shards. Idempotent."""
        with broker_errors(f"leaving queue {queue}"):
            self._client.zrem(self.keys.workers(queue), worker)

    def workers(self, queue: str) -> list[str]:
        """For a coordinator before it sends: who serves a queue now."""
        return list(self._scripts.run("live_workers", [self.keys.workers(queue)], [], doing=f"looking at {queue}"))

    def served(self) -> list[str]:
        """For operators: the queues that any worker serves now, whatever its version, class or image."""
        with broker_errors("looking for workers"):
            start = self.keys.workers("")
            names = [key.removeprefix(start) for key in self._client.scan_iter(match=f"{start}*", count=100)]
        return sorted(name for name in names if self.workers(name))

    def ask_to_drain(self, worker: str) -> None:
        """For operators: a worker ends its units under way, gives its shards back and ends. Forgotten after an hour."""
        with broker_errors(f"draining {worker}"):
            self._client.set(self.keys.drain(worker), "1", ex=DRAIN_ASKED_S)

    def is_asked_to_drain(self, worker: str) -> bool:
        """For the worker itself; asked once, answered once."""
        with broker_errors(f"looking whether {worker} should end"):
            return bool(self._client.delete(self.keys.drain(worker)))

    def rest(self, worker: str, why: str, *, ttl_s: float) -> None:
        """For a worker, every third of `ttl_s`: it is there and takes no shards now."""
        with broker_errors(f"saying that {worker} rests"):
            self._client.set(self.keys.resting(worker), why, px=int(ttl_s * 1000))

    def rest_no_more(self, worker: str) -> None:
        """For a worker that takes shards again. Idempotent."""
        with broker_errors(f"saying that {worker} goes on"):
            self._client.delete(self.keys.resting(worker))

    def resting(self, workers: Iterable[str]) -> dict[str, str]:
        """Those of the workers that take no shards now, with why."""
        names = sorted(set(workers))
        if not names:
            return {}
        with broker_errors("looking for workers that rest"):
            found = self._client.mget([self.keys.resting(name) for name in names])
        return {name: why for name, why in zip(names, found, strict=True) if why is not None}

    def queue_idle_ms(self, queue: str) -> int:
        """For janitors: since when a queue is empty, as far as janitors looked; -1 when a message waits in it."""
        keys = [self.keys.queue(queue), self.keys.queue_idle(queue)]
        return int(self._scripts.run("queue_idle", keys, [IDLE_NOTE_MS], doing=f"looking at {queue}"))

    def lock(self, name: str, owner: str, *, ttl_s: float) -> bool:
        """Take or keep a lock; False when somebody else has it. It ends by itself after `ttl_s`."""
        return bool(self._scripts.run("lock", [self.keys.lock(name)], [owner, int(ttl_s * 1000)], doing=f"lock {name}"))

    def unlock(self, name: str, owner: str) -> None:
        """Let a lock go, if it is the owner's."""
        self._scripts.run("unlock", [self.keys.lock(name)], [owner], doing=f"lock {name}")
