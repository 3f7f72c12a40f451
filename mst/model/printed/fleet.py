"""What the fleet and this machine work on, as `mst ps` and `mst fleet` print it."""

from __future__ import annotations

from pydantic import ConfigDict

from mst.model.base import Model
from mst.model.keys import RunId
from mst.model.printed.base import Printed


class ShardInFlightRecord(Printed):
    """A shard that a worker has; `lease_left_s` is negative when its lease has run out."""

    shard: int
    state: str
    attempt: str
    worker: str
    done: int
    units: int
    lease_left_s: float


class FleetRunRecord(Printed):
    """A dispatch that is not closed."""

    run_id: RunId
    dispatch: str
    work: str
    eval: str
    queue: str
    deadline: str
    shards: dict[str, int]
    units: int
    done: int
    cancel: str | None
    in_flight: list[ShardInFlightRecord]
    coordinator_here: bool


class LocalRunRecord(Printed):
    """A run that a command on this machine works on, or that was sent out from it and waits for one."""

    run_id: RunId
    eval: str
    coordinator_here: bool
    path: str


class InFlightDocument(Printed):
    """`mst ps`."""

    runs: list[FleetRunRecord | LocalRunRecord]


class ResourceRecord(Printed):
    """Calls of one provider or server, and the fleet's own limits."""

    resource: str
    running: int
    waiting: int
    paused_s: float
    limits: dict[str, float]


class SpentRecord(Printed):
    """What a run has spent, units under way included."""

    tokens: float
    cost_usd: float


class FleetLimitsDocument(Printed):
    """`mst fleet limits`."""

    resources: list[ResourceRecord]
    spent: dict[str, SpentRecord]


class BrokerLeftover(Printed):
    """Something in the broker that nobody needs any more."""

    kind: str
    name: str
    why: str
    place: str


class BrokerClearedDocument(Printed):
    """`mst fleet gc`."""

    dry_run: bool
    removed: list[BrokerLeftover]


class ScaleLine(Model):
    """`mst fleet scale`, one line each time. Its keys are those of the metrics."""

    model_config = ConfigDict(alias_generator=None)

    pool: str
    queues: list[str]
    queued: int
    running: int
    expired: int
    oldest_wait_s: float
    workers: int
    slots: int
    backlog: int
    backlog_per_worker: float
    desired: int
