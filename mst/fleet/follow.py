"""Following a dispatch to its end: the ledger's events for progress, the store's manifests for the truth."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime

from mst.errors import BrokerError
from mst.fleet.adoption import bring_manifest
from mst.fleet.closing import close_dispatch
from mst.fleet.dispatch_book import DispatchBook
from mst.fleet.grants import GrantSlots, GrantTarget
from mst.fleet.ledger_records import Head
from mst.fleet.ledger_states import FINAL, Entry, State
from mst.model.fleet import CloseReason
from mst.model.manifest import ShardManifest
from mst.model.shard import Hello
from mst.shards.contract import Cancel, ShardEvents, ShardOutcome, ShardSpec, ShardState
from mst.shards.units import finished_units
from mst.store.commit import read_shard
from mst.store.contract import Store
from mst.store.layout import DispatchKeys

WAIT_S = 1.0
LOOK_EVERY_S = 2.0
"""How often the store is looked at without a hint from the ledger."""
SHOWN = {
    State.QUEUED: "queued",
    State.LEASED: "starting",
    State.RUNNING: "running",
    State.WAITING_TOKEN: "queued",
    State.COMMITTED: "committed",
    State.FAILED: "failed",
    State.CANCELLED: "cancelled",
}


@dataclass
class Follower:
    """One coordinator's view of one dispatch. Made by whoever sent it, or by another process later."""

    store: Store
    book: DispatchBook
    grants: GrantSlots
    keys: DispatchKeys
    head: Head
    target: GrantTarget
    shards: Sequence[ShardSpec]
    events: ShardEvents
    cancel: Cancel
    _place: str = "0-0"
    _open: dict[int, ShardSpec] = field(default_factory=dict)
    _manifests: dict[int, ShardManifest] = field(default_factory=dict)
    _ended: dict[int, str] = field(default_factory=dict)
    _cancelled: bool = False
    _looked: float = 0.0

    def follow(self) -> list[ShardOutcome]:
        """Wait until every shard is over, close the dispatch, and bring everything here.

        The broker may go away for as long as it likes: the store is looked at all the same, until the deadline.

        Raises:
            StoreError: the store does not answer for longer than its patience.
        """
        self._open = {spec.index: spec for spec in self.shards}
        while self._open and datetime.now(UTC) < self.head.deadline:
            self._pass_cancel_on()
            if self._hear() or time.monotonic() - self._looked > LOOK_EVERY_S:
                self._look()
        return self._close()

    def _hear(self) -> bool:
        """Read events; returns whether a shard may have ended."""
        try:
            lines = self.book.events(self.head.scope, after=self._place, wait_s=WAIT_S)
        except BrokerError:
            self.cancel.wait(WAIT_S)
            return True
        ended = False
        for line in lines:
            self._place = line.id
            self.events.count(line.shard, line.done)
            if line.event in ("acquire", "start", "expire", "give_back", "finish", "commit", "cancel"):
                reason = line.reason if line.event in ("give_back", "expire", "finish") else None
                shown = "lost" if line.event in ("give_back", "expire") else SHOWN[line.state]
                self.events.state(
                    ShardState(shard=line.shard, state=shown, attempt=line.attempt_id or None, reason=reason)  # type: ignore[arg-type]  # SHOWN holds only states
                )
            ended = ended or line.state in FINAL
        return ended

    def _look(self) -> None:
        self._looked = time.monotonic()
        for index in list(self._open):
            manifest = read_shard(self.store, self.keys.shard(index))
            if manifest is not None:
                self._manifests[index] = manifest
                del self._open[index]
        try:
            entries: Mapping[int, Entry] = dict(self.book.entries(self.head))
        except BrokerError:
            return
        for index in list(self._open):
            entry = entries.get(index)
            if entry is not None and entry.state in (State.FAILED, State.CANCELLED):
                self._ended[index] = entry.reason or entry.cancel or entry.state.value
                del self._open[index]

    def _pass_cancel_on(self) -> None:
        if not self.cancel.is_set() or self._cancelled:
            return
        try:
            self.book.cancel(self.head, self.cancel.reason)
            self._cancelled = True
        except BrokerError:
            return

    def _close(self) -> list[ShardOutcome]:
        reason: CloseReason = "cancelled" if self.cancel.is_set() else "gave-up" if self._open else "done"
        manifests = close_dispatch(self.store, self.keys, self.shards, reason)
        # every key of ours ends by itself, should the broker not answer
        with suppress(BrokerError):
            self.grants.drop(self.target)
            self.book.close_dispatch(self.head.scope)
        return [self._outcome(spec, manifests[spec.index]) for spec in self.shards]

    def _outcome(self, spec: ShardSpec, manifest: ShardManifest) -> ShardOutcome:
        bring_manifest(self.store, manifest, spec.results)
        return outcome_of(spec, manifest, self._ended.get(spec.index))


def outcome_of(spec: ShardSpec, manifest: ShardManifest, why: str | None) -> ShardOutcome:
    """How a shard ended, by what its manifest brought to its results folder."""
    there = len(finished_units(spec.results, spec.planned, spec.digest))
    whole = there == len(spec.planned)
    machine = manifest.machine or {}
    hello = (
        Hello(mst=manifest.versions.get("mst", ""), python="", machine=str(machine["id"]), image=machine.get("image"))
        if machine.get("id")
        else None
    )
    refused = why is not None and not there and manifest.closed
    return ShardOutcome(
        shard=spec.index,
        ok=whole,
        reason=None if whole else "refused" if refused and why not in ("cancelled",) else "lost",
        detail=None if whole else why or "the shard was not finished",
        counts={"units": there},
        hello=hello,
        started_at=machine.get("startedAt"),
        ended_at=machine.get("endedAt"),
        attempts=tuple(manifest.attempts),
    )
