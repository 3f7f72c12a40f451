"""Prometheus metrics of a coordinator while it collects or grades; asked for with `MST_METRICS_PORT`."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Final

from mst.errors import UsageError
from mst.fleet.extras import need

PORT: Final = "MST_METRICS_PORT"
ADDRESS: Final = "MST_METRICS_ADDRESS"
LOOPBACK: Final = "127.0.0.1"
MOST: Final = 65535


@dataclass(frozen=True, kw_only=True)
class Counts:
    """How far a coordinator is.

    Attributes:
        work: `collect` or `grade`.
        planned: units in all, as far as known.
        done: of those; `passed` and `problems` are parts of it.
        shards: how many are in each state, by the states of `ShardState`.
    """

    work: str
    planned: int | None = None
    done: int = 0
    passed: int = 0
    problems: int = 0
    shards: Mapping[str, int] = field(default_factory=dict)


class CoordinatorMetrics:
    """Reads its counts whenever it is scraped. Labels are the kind of work and a shard's state."""

    def __init__(self, read: Callable[[], Counts]) -> None:
        self._read = read
        self.registry = need("prometheus_client", "metrics").CollectorRegistry()
        self.registry.register(self)

    def collect(self) -> Iterator[Any]:
        """What prometheus-client asks for."""
        gauge = need("prometheus_client.core", "metrics").GaugeMetricFamily
        counts = self._read()
        units = gauge("mst_coordinator_units", "Units by what is known of them.", labels=["work", "state"])
        for state in ("planned", "done", "passed", "problems"):
            if (value := getattr(counts, state)) is not None:
                units.add_metric([counts.work, state], value)
        yield units
        shards = gauge("mst_coordinator_shards", "Shards by state.", labels=["work", "state"])
        for state, value in sorted(counts.shards.items()):
            shards.add_metric([counts.work, state], value)
        yield shards


@contextmanager
def served(read: Callable[[], Counts], environment: Mapping[str, str] | None = None) -> Iterator[int | None]:
    """Serve `/metrics` while the block runs when the environment asks for it; yields the port, None when not asked.

    Raises:
        UsageError: the port is no number or taken, or `prometheus-client` is not installed.
    """
    environment = os.environ if environment is None else environment
    given = environment.get(PORT)
    if not given:
        yield None
        return
    library = need("prometheus_client", "metrics")
    address = environment.get(ADDRESS) or LOOPBACK
    if not given.isdecimal() or int(given) > MOST:
        raise UsageError(f"{PORT}={given}: give a port, a number from 0 to {MOST}")
    try:
        server, thread = library.start_http_server(int(given), addr=address, registry=CoordinatorMetrics(read).registry)
    except OSError as error:
        raise UsageError(f"{PORT}={given}: {address} does not take it: {error.strerror}; give another port") from error
    try:
        yield int(server.server_port)
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
