"""What both kinds of shard work share: the bundle, where results go, whom to tell."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from mst.grade.breaker import Breaker
from mst.model.base import Model
from mst.process.redact import Redactor
from mst.shards.asking import Asking
from mst.shards.bundle import Bundle
from mst.shards.units import UnitWriter


@dataclass
class Tally:
    """Units by how they ended."""

    collected: int = 0
    infra: int = 0
    graded: int = 0
    failed: int = 0
    cancelled: int = 0

    def counts(self) -> dict[str, int]:
        """As the `done` message has them."""
        return dict(vars(self))


@dataclass(frozen=True, kw_only=True)
class Job:
    """One shard's work, as the worker hands it to collecting or grading."""

    bundle: Bundle
    results: Path
    scratch: Path
    digest: str
    attempt: str | None
    machine: str
    secrets: Mapping[str, str] = field(repr=False)
    redactor: Redactor
    cancel: asyncio.Event
    send: Callable[[Model], None]
    send_soon: Callable[[Model], None]
    """For what nobody waits for: it goes with the next message, or a moment later. On the event loop only."""
    tally: Tally
    asking: Asking
    breaker: Breaker

    def unit_writer(self) -> UnitWriter:
        """Makes this job's unit files."""
        record = self.bundle.record
        return UnitWriter(
            self.results,
            work=record.work,
            run_id=record.run_id,
            shard=record.shard,
            digest=self.digest,
            attempt=self.attempt,
            machine=self.machine,
        )
