"""Following a dispatch to its end: the ledger's events for progress, the store's manifests for the truth."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TypeVar

from mst.errors import BrokerError, RefusedError, StoreUnavailable
from mst.fleet.closing import close_dispatch
from mst.fleet.dispatch_book import DispatchBook
from mst.fleet.grants import GrantSlots, GrantTarget
from mst.fleet.ledger_records import Head, LedgerEvent
from mst.fleet.ledger_states import FINAL, UNCOUNTED, Entry, State
from mst.model.fleet import CloseReason
from mst.model.manifest import ShardManifest
from mst.model.shard import Hello, unit_name
from mst.shards.contract import Cancel, LossReason, ShardEvents, ShardOutcome, ShardSpec, ShardState, Shown
from mst.shards.units import unit_files
from mst.store.commit import read_shard
from mst.store.contract import Store
from mst.store.layout import DispatchKeys
from mst.store.units import fetch_shard

PACE = threading.Event()
ResultT = TypeVar("ResultT")
WAIT_S = 1.0
LOOK_EVERY_S = 2.0
"""How often the store is looked at without a hint from the ledger."""
WORDS = {
    "lapsed": "nothing was heard of its worker for too long",
    "died": "its worker is gone",
    "crashed": "its process ended before it was done",
    "silence": "its process said nothing for too long",
    "drain": "it was told to end (drained)",
    "preempted": "its machine is taken away",
    "protocol": "its process sent what was not planned",
    "no_machine": "its machine could not be made",
    "out_of_memory": "it used more memory than it may",
    "store": "it could not reach the result store",
    "incompatible": "it has another version",
    "incomplete": "some of its units are missing",
    "broker": "it could not reach the broker",
    "waiting_token": "a credential expires: renew it in the secrets file; the shard waits for that",
    "disk": "it used more disk than a shard may",
    "time": "it took longer than a shard may",
    "machine": "its machine failed it: its worker's log says how",
}
SHOWN_EVENTS = frozenset({"acquire", "start", "expire", "give_back", "finish", "commit", "cancel"})
SHOWN: dict[State, Shown] = {
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
    """One coordinator's view of one dispatch. Made by whoever sent it, or by another process later.

    Attributes:
        write_again: writes the dispatch into a broker that lost it.
        tend: renews credentials; told the shards that wait for one.
        refused: says why nobody will ever take a shard, from the entries, when that is so.
        waited: tells, from the entries, when nobody takes a shard now.
    """

    store: Store
    book: DispatchBook
    grants: GrantSlots
    keys: DispatchKeys
    head: Head
    target: GrantTarget
    shards: Sequence[ShardSpec]
    events: ShardEvents
    cancel: Cancel
    write_again: Callable[[], None]
    tend: Callable[[Sequence[int]], None] = lambda _waiting: None
    refused: Callable[[Mapping[int, Entry]], str | None] = lambda _entries: None
    waited: Callable[[Mapping[int, Entry]], None] = lambda _entries: None
    _why_refused: str | None = None
    _place: str = "0-0"
    _open: set[int] = field(default_factory=set)
    _ended: dict[int, Entry] = field(default_factory=dict)
    _lost_for: dict[int, str] = field(default_factory=dict)
    _shown: dict[int, Shown] = field(default_factory=dict)
    _counted: dict[int, int] = field(default_factory=dict)
    _cancelled: bool = False
    _looked: float = 0.0
    _silent_since: float | None = None
    _is_store_away: bool = False

    def follow(self) -> list[ShardOutcome]:
        """Wait until every shard is over, close the dispatch, and bring everything here.

        Broker and store may go away for as long as they like, until the deadline; without a broker the store alone is
        looked at. Whoever reaches the store at the deadline ends with what is finished.

        Raises:
            RefusedError: all workers refuse this work; the dispatch is closed.
            StoreUnavailable: the store does not answer at the deadline, or when this is cancelled. Nothing is closed.
            StoreError: it refuses.
        """
        self._open = {spec.index for spec in self.shards}
        while self._open and not self._is_late():
            self._pass_cancel_on()
            if self._is_left_alone() or self._why_refused is not None:
                break
            if self._hear() or time.monotonic() - self._looked > LOOK_EVERY_S:
                self._with_store(self._look)
        while (outcomes := self._with_store(self._close)) is None:
            continue
        return outcomes

    def _is_late(self) -> bool:
        return datetime.now(UTC) >= self.head.deadline

    def _with_store(self, do: Callable[[], ResultT]) -> ResultT | None:
        """Do something that may be done again; None when the store did not answer, and may be waited for."""
        try:
            found = do()
        except StoreUnavailable as error:
            if self.cancel.is_set() or self._is_late():
                raise StoreUnavailable(
                    f"{error}; what is finished is kept: when it answers, mst attach {self.head.run_id}"
                ) from error
            if not self._is_store_away:
                self.events.note(f"{error}; waiting for it, at most until {self._deadline}")
            self._is_store_away = True
            PACE.wait(WAIT_S)
            return None
        if self._is_store_away:
            self._is_store_away = False
            self.events.note("the result store answers again")
        return found

    @property
    def _deadline(self) -> str:
        return f"the deadline {self.head.deadline.isoformat(timespec='seconds')}"

    def _hear(self) -> bool:
        """Read events, for at most a moment; returns whether a shard may have ended."""
        try:
            lines = self.book.events(self.head.scope, after=self._place, wait_s=WAIT_S)
        except BrokerError:
            self._silent_since = self._silent_since or time.monotonic()
            PACE.wait(WAIT_S)
            return True
        self._silent_since = None
        for line in lines:
            self._place = line.id
            self._show(line)
        return any(line.state in FINAL for line in lines)

    def _show(self, line: LedgerEvent) -> None:
        self._count(line.shard, line.done)
        if line.event not in SHOWN_EVENTS:
            return
        reason = WORDS.get(line.reason, line.reason) or None
        state = SHOWN[line.state]
        if line.event in ("give_back", "expire") and line.state not in FINAL:
            self._lost_for[line.shard] = reason or "its worker was lost"
            state = "given_back" if line.event == "give_back" and line.reason in UNCOUNTED else "lost"
        self._say(line.shard, state, line.attempt_id or None, reason, line.worker or None)

    def _show_entry(self, shard: int, entry: Entry) -> None:
        """What no event told: the stream is short, began anew after a wipe, and nobody reads it while asleep."""
        self._count(shard, entry.done)
        state, shown = SHOWN[entry.state], self._shown.get(shard)
        if state != shown and not (state == "queued" and shown in ("lost", "given_back")):
            self._say(shard, state, entry.attempt_id or None, worker=entry.worker or None)

    def _say(
        self,
        shard: int,
        state: Shown,
        attempt: str | None = None,
        reason: str | None = None,
        worker: str | None = None,
    ) -> None:
        self._shown[shard] = state
        self.events.state(ShardState(shard=shard, state=state, attempt=attempt, machine=worker, reason=reason))

    def _count(self, shard: int, done: int) -> None:
        if done != self._counted.get(shard):
            self._counted[shard] = done
            self.events.count(shard, done)

    def _look(self) -> None:
        self._looked = time.monotonic()
        for index in list(self._open):
            if read_shard(self.store, self.keys.shard(index)) is not None:
                self._open.discard(index)
        if self._silent_since is not None:
            return
        try:
            if self._open and self.book.head(self.head.scope) is None:
                self.write_again()
            entries = dict(self.book.entries(self.head))
            self.tend([index for index, entry in entries.items() if entry.state is State.WAITING_TOKEN])
            self._why_refused = self.refused(entries)
            self.waited(entries)
            for index, entry in entries.items():
                self._show_entry(index, entry)
                if index in self._open and self._is_over(index, entry):
                    self._ended[index] = entry
                    self._open.discard(index)
        except BrokerError:
            return

    def _is_over(self, index: int, entry: Entry) -> bool:
        """Whether nobody will work on a shard any more, although it had no manifest when the store was looked at."""
        if entry.state is State.COMMITTED:
            # committed since that look; or the manifest was taken away, and closing makes another
            return read_shard(self.store, self.keys.shard(index)) is None
        return entry.state in (State.FAILED, State.CANCELLED)

    def _pass_cancel_on(self) -> None:
        if not self.cancel.is_set() or self._cancelled:
            return
        try:
            self.book.cancel(self.head, self.cancel.reason)
            self._cancelled = True
        except BrokerError:
            return

    def _is_left_alone(self) -> bool:
        """Whether a cancel can't be passed on: then closing the dispatch in the store is what stops its workers."""
        silent_s = time.monotonic() - self._silent_since if self._silent_since is not None else 0.0
        return self.cancel.is_set() and silent_s > self.head.limits.lease_ttl_s

    def _close(self) -> list[ShardOutcome]:
        reason: CloseReason = "cancelled" if self.cancel.is_set() else "gave-up" if self._open else "done"
        manifests = close_dispatch(self.store, self.keys, self.shards, reason)
        self._forget()
        if self._why_refused is not None:
            raise RefusedError(f"{self._why_refused}; then: mst attach {self.head.run_id}")
        return [self._outcome(spec, manifests[spec.index]) for spec in self.shards]

    def _forget(self) -> None:
        """Take from the broker what nobody needs any more. The results are in the store, so one try is enough."""
        try:
            self.grants.drop(self.target)
            self.book.close_dispatch(self.head.scope)
        except BrokerError as error:
            self.events.note(f"{error}; the results are safe, and what is left in the broker expires by itself")

    def _outcome(self, spec: ShardSpec, manifest: ShardManifest) -> ShardOutcome:
        faults = fetch_shard(self.store, manifest, spec.results)
        if faults:
            self._say(spec.index, "failed", reason=faults[0])
        outcome = outcome_of(spec, manifest, ("lost", faults[0]) if faults else self._why(spec.index))
        self._count(spec.index, outcome.counts["units"])
        if outcome.ok and self._shown.get(spec.index) != "committed":
            self._say(spec.index, "committed")
        return outcome

    def _why(self, index: int) -> tuple[LossReason, str]:
        entry = self._ended.get(index)
        lost_for = self._lost_for.get(index, "its worker was lost")
        match entry:
            case None if self.cancel.is_set():
                return "cancelled", self.cancel.reason
            case None if index not in self._open:
                return "lost", "its manifest does not list all of its units"
            case None:
                return "lost", f"{self._deadline} passed"
            case Entry(state=State.COMMITTED):
                return "lost", "its manifest is gone from the store"
            case Entry(state=State.CANCELLED):
                return "cancelled", entry.reason or entry.cancel
            case Entry(reason="deadline"):
                return "lost", f"{self._deadline} passed"
            case Entry(reason="limit"):
                return "lost", f"given up after {entry.n} attempts; the last one: {lost_for}"
        return "refused", entry.reason


def outcome_of(spec: ShardSpec, manifest: ShardManifest, why: tuple[LossReason, str]) -> ShardOutcome:
    """How a shard ended, by what its manifest brought to its results folder.

    Args:
        why: reason and words for it, in case something is missing.
    """
    # their bytes were checked as they came; whoever reads a unit checks what it says
    names = unit_files(spec.results)
    there = sum(unit_name(key) in names for key in spec.planned)
    whole = there == len(spec.planned)
    machine = manifest.machine or {}
    hello = (
        Hello(mst=manifest.versions.get("mst", ""), python="", machine=str(machine["id"]), image=machine.get("image"))
        if machine.get("id")
        else None
    )
    return ShardOutcome(
        shard=spec.index,
        ok=whole,
        reason=None if whole else why[0],
        detail=None if whole else why[1],
        counts={"units": there},
        hello=hello,
        started_at=machine.get("startedAt"),
        ended_at=machine.get("endedAt"),
        attempts=tuple(manifest.attempts),
    )
