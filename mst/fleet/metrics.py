"""Prometheus metrics of workers and scalers. Labels are few and bounded: no run, shard, case or machine name is one.

`/metrics` is served by a thread of the process, on loopback unless told otherwise. Without `prometheus-client` (extra
`metrics`) a worker runs without them.
"""

from __future__ import annotations

import threading
import time
from collections import OrderedDict
from types import ModuleType
from typing import Any, Final

from mst.fleet.extras import need
from mst.fleet.scale import Signal

EVALS_MAX: Final = 50
"""Eval names that become label values; those that come later are counted as `other`."""
SHARD_S = (1, 5, 15, 60, 300, 900, 1800, 3600, 7200, 14400, 28800)
UNIT_S = (0.1, 0.5, 1, 2, 5, 10, 30, 60, 120, 300, 900, 3600)
HOWS = frozenset({"committed", "lost", "failed", "cancelled", "given_back"})
STATES = ("queued", "running")


class Bounded:
    """Label values, at most so many; later ones become `other`. Thread-safe."""

    def __init__(self, most: int = EVALS_MAX) -> None:
        self._most = most
        self._known: OrderedDict[str, None] = OrderedDict()
        self._lock = threading.Lock()

    def __call__(self, value: str) -> str:
        """The value as a label."""
        with self._lock:
            if value not in self._known and len(self._known) >= self._most:
                return "other"
            self._known[value] = None
            return value


class Uncounted:
    """What a worker without metrics counts: nothing. `WorkerMetrics` says what the calls mean."""

    def attempt_started(self) -> None:
        """See `WorkerMetrics`."""

    def attempt_ended(self, *, work: str, eval_name: str, how: str, seconds: float) -> None:
        """See `WorkerMetrics`."""

    def unit_done(self, *, work: str, eval_name: str, seconds: float) -> None:
        """See `WorkerMetrics`."""

    def used(self, *, eval_name: str, judge_calls: int, cost_usd: float) -> None:
        """See `WorkerMetrics`."""

    def lease_held(self, shard: str, answered: float | None) -> None:
        """See `WorkerMetrics`."""

    def message_refused(self) -> None:
        """See `WorkerMetrics`."""

    def message_dropped(self, why: str) -> None:
        """See `WorkerMetrics`."""

    def draining(self) -> None:
        """See `WorkerMetrics`."""


class WorkerMetrics(Uncounted):
    """What one worker process counts. Thread-safe."""

    def __init__(self) -> None:
        library = _library()
        self.registry = library.CollectorRegistry()
        self._evals = Bounded()
        own: dict[str, Any] = {"registry": self.registry}
        self._shards = library.Counter(
            "mst_attempts", "Attempts that ended, by how.", ["work", "eval_name", "how"], **own
        )
        self._shard_s = library.Histogram(
            "mst_attempt_seconds", "How long attempts took.", ["work"], buckets=SHARD_S, **own
        )
        self._units = library.Counter("mst_units", "Units that became durable.", ["work", "eval_name"], **own)
        self._unit_s = library.Histogram(
            "mst_unit_seconds", "From a unit's start to its result being durable.", ["work"], buckets=UNIT_S, **own
        )
        self._calls = library.Counter("mst_judge_calls", "Calls of judges.", ["eval_name"], **own)
        self._cost = library.Counter("mst_cost_usd", "What units said that they cost.", ["eval_name"], **own)
        self._leases: dict[str, float] = {}
        age = library.Gauge(
            "mst_lease_age_seconds", "Since the broker last confirmed the lease that waits longest.", **own
        )
        age.set_function(self._lease_age_s)
        self._refused = library.Counter("mst_messages_refused", "Messages that no honest coordinator sent.", **own)
        self._redelivered = library.Counter(
            "mst_messages_dropped", "Messages for shards that need no work.", ["why"], **own
        )
        self._held = library.Gauge("mst_shards_held", "Shards that this worker holds.", **own)
        self._draining = library.Gauge("mst_draining", "1 while no further unit starts.", **own)

    def attempt_started(self) -> None:
        """A shard was granted."""
        self._held.inc()

    def attempt_ended(self, *, work: str, eval_name: str, how: str, seconds: float) -> None:
        """An attempt ended; `how` as in `mst.fleet.attempt.Ended`."""
        self._held.dec()
        self._shards.labels(work, self._evals(eval_name), how if how in HOWS else "other").inc()
        self._shard_s.labels(work).observe(seconds)

    def unit_done(self, *, work: str, eval_name: str, seconds: float) -> None:
        """A unit's result is durable."""
        self._units.labels(work, self._evals(eval_name)).inc()
        self._unit_s.labels(work).observe(seconds)

    def used(self, *, eval_name: str, judge_calls: int, cost_usd: float) -> None:
        """A unit said what it used."""
        label = self._evals(eval_name)
        self._calls.labels(label).inc(judge_calls)
        self._cost.labels(label).inc(cost_usd)

    def lease_held(self, shard: str, answered: float | None) -> None:
        """A shard's lease was confirmed at this moment of the monotonic clock; None when it is held no more."""
        if answered is None:
            self._leases.pop(shard, None)
        else:
            self._leases[shard] = answered

    def _lease_age_s(self) -> float:
        oldest = min(self._leases.copy().values(), default=None)
        return 0.0 if oldest is None else max(0.0, time.monotonic() - oldest)

    def message_refused(self) -> None:
        """A message had a bad signature, place or version."""
        self._refused.inc()

    def message_dropped(self, why: str) -> None:
        """A message was a duplicate, or its shard is over; `why` is one of the ledger's words."""
        self._redelivered.labels(why).inc()

    def draining(self) -> None:
        """The worker takes no more."""
        self._draining.set(1)


class SignalMetrics:
    """The scaling signal as metrics; see `mst.fleet.publish.Publisher`."""

    def __init__(self, pool: str) -> None:
        library = _library()
        self.registry = library.CollectorRegistry()
        own: dict[str, Any] = {"registry": self.registry}
        self._pool = pool
        self._shards = library.Gauge("mst_fleet_shards", "Shards by state.", ["pool", "state"], **own)
        self._expired = library.Gauge("mst_fleet_leases_expired", "Held shards whose lease ran out.", ["pool"], **own)
        self._wait_s = library.Gauge("mst_fleet_oldest_wait_seconds", "The longest wait.", ["pool"], **own)
        self._workers = library.Gauge("mst_fleet_workers", "Workers that serve.", ["pool"], **own)
        self._backlog = library.Gauge("mst_fleet_backlog_per_worker", "Queued and running per slot.", ["pool"], **own)

    def publish(self, signal: Signal) -> None:
        """See `Publisher.publish`."""
        for state in STATES:
            self._shards.labels(self._pool, state).set(getattr(signal, state))
        self._expired.labels(self._pool).set(signal.expired)
        self._wait_s.labels(self._pool).set(signal.oldest_wait_s)
        self._workers.labels(self._pool).set(signal.workers)
        self._backlog.labels(self._pool).set(signal.backlog_per_worker)


def serve(registry: Any, *, port: int, address: str = "127.0.0.1") -> int:
    """Serve `/metrics` from a daemon thread; returns the port (a free one for 0).

    Raises:
        UsageError: `prometheus-client` is not installed.
        OSError: the port is taken.
    """
    server, _thread = _library().start_http_server(port, addr=address, registry=registry)
    return int(server.server_port)


def _library() -> ModuleType:
    return need("prometheus_client", "metrics")
