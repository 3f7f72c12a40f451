"""Faults of judges that say nothing about a case, counted over all shards: which judges nobody asks any more.

A shard alone may be too short to see that a key is gone; a thousand shards would each find out anew.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Mapping
from typing import Protocol

from mst.errors import GradingFault
from mst.grade.breaker import STOP_AFTER, why_stopped


class JudgeFaults(Protocol):
    """Faults of one dispatch's judges, named as `Breaker` does. Methods raise `BrokerError` when there is no answer."""

    def failed(self, judge: str, kind: GradingFault, message: str) -> str | None:
        """A judge ended so; returns why nobody asks it any more, once that is so. The message holds no secret."""
        ...

    def answered(self, judge: str) -> None:
        """A judge gave a verdict: the count starts anew."""
        ...

    def stopped(self) -> Mapping[str, str]:
        """The judges that nobody asks any more, each with why."""
        ...


class LocalFaults:
    """See `JudgeFaults`; for shards of this process. Thread-safe."""

    def __init__(self, stop_after: int = STOP_AFTER) -> None:
        self._stop_after = stop_after
        self._lock = threading.Lock()
        self._counts: dict[str, Counter[GradingFault]] = {}
        self._stopped: dict[str, str] = {}

    def failed(self, judge: str, kind: GradingFault, message: str) -> str | None:
        """See `JudgeFaults.failed`."""
        with self._lock:
            counts = self._counts.setdefault(judge, Counter())
            counts[kind] += 1
            if counts[kind] >= self._stop_after:
                self._stopped.setdefault(judge, why_stopped(counts[kind], kind, message))
            return self._stopped.get(judge)

    def answered(self, judge: str) -> None:
        """See `JudgeFaults.answered`."""
        with self._lock:
            self._counts.pop(judge, None)

    def stopped(self) -> Mapping[str, str]:
        """See `JudgeFaults.stopped`."""
        with self._lock:
            return dict(self._stopped)
