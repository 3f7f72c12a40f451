"""Faults of judges in Redis, for all workers of a dispatch alike. The next dispatch starts afresh."""

from __future__ import annotations

from collections.abc import Mapping

from mst.errors import GradingFault
from mst.fleet.connect import RedisClient, broker_errors
from mst.fleet.ledger_keys import DEFAULT_PREFIX, Keys
from mst.fleet.scripts import RETENTION_MS, Scripts
from mst.grade.breaker import STOP_AFTER, why_stopped

MESSAGE_MAX = 500


class FleetFaults:
    """See `mst.shards.faults.JudgeFaults`."""

    def __init__(self, client: RedisClient, scope: str, prefix: str = DEFAULT_PREFIX) -> None:
        self._client = client
        self._key = Keys(prefix).faults(scope)
        self._scripts = Scripts(client)

    def failed(self, judge: str, kind: GradingFault, message: str) -> str | None:
        """See `JudgeFaults.failed`."""
        why = why_stopped(STOP_AFTER, kind, message[:MESSAGE_MAX])
        args: list[str | int] = [judge, kind, STOP_AFTER, why, RETENTION_MS]
        return self._scripts.run("judge_failed", [self._key], args, doing="noting a judge's fault") or None

    def answered(self, judge: str) -> None:
        """See `JudgeFaults.answered`."""
        with broker_errors("noting a judge's verdict"):
            counts = [name for name in self._client.hkeys(self._key) if name.startswith(f"n:{judge}:")]
            if counts:
                self._client.hdel(self._key, *counts)

    def stopped(self) -> Mapping[str, str]:
        """See `JudgeFaults.stopped`."""
        with broker_errors("reading which judges are stopped"):
            found = self._client.hgetall(self._key)
        return {name.removeprefix("s:"): why for name, why in found.items() if name.startswith("s:")}
