"""Shards that nobody seems to work on: found, looked up in the store, and sent again or given up.

Runs in idle workers and in the coordinator; a short lock elects one at a time. It never takes a shard itself.
"""

from __future__ import annotations

import threading
import time
from contextlib import suppress

import structlog

from mst.errors import BrokerError, InfrastructureError, MstError, StoreDenied
from mst.fleet.dispatch_book import DispatchBook
from mst.fleet.host import Send, send_shard
from mst.fleet.janitor_rules import needed
from mst.fleet.lease import boottime
from mst.fleet.ledger import Ledger
from mst.fleet.ledger_records import Head
from mst.fleet.ledger_states import Entry
from mst.fleet.presence import Presence
from mst.model.fleet import Envelope, ShardRef
from mst.store.commit import read_shard
from mst.store.contract import Store
from mst.store.layout import RunKeys

log = structlog.get_logger(__name__)

LOCK = "janitor"
STOP_S = 5.0
"""How long stopping waits for a look that is under way."""
RESTS = 6
"""So many turns are left out after one that the store refused."""


class Janitor:
    """One look after another at all open dispatches.

    Args:
        owner: who holds the lock.
        every_s: between looks; a fraction of the shortest lease.
        settle_s: how long nothing is expired after the broker first answers, or after this machine slept: leases
            that look over may be those of workers that could not renew them either.
    """

    def __init__(
        self,
        *,
        owner: str,
        book: DispatchBook,
        ledger: Ledger,
        presence: Presence,
        store: Store,
        send: Send,
        every_s: float,
        settle_s: float,
    ) -> None:
        self._owner = owner
        self._book = book
        self._ledger = ledger
        self._presence = presence
        self._store = store
        self._send = send
        self._every_s = every_s
        self._settle_s = settle_s
        self._quiet_until = 0.0
        self._ended = threading.Event()
        self._reachable = False
        self._thread: threading.Thread | None = None

    def start(self) -> None:
        """Look in a thread of its own until `stop`."""
        self._thread = threading.Thread(target=self._keep_looking, daemon=True, name="mst-janitor")
        self._thread.start()

    def stop(self) -> None:
        """End the thread and let the lock go, within seconds whatever the broker does. Safe to call twice."""
        self._ended.set()
        if self._thread is not None:
            self._thread.join(STOP_S)
            if self._thread.is_alive() or not self._reachable:
                return  # the lock ends by itself
        try:
            self._presence.unlock(LOCK, self._owner)
        except BrokerError:
            return  # the lock ends by itself

    def _keep_looking(self) -> None:
        last = boottime()
        while not self._ended.wait(self._every_s):
            jumped = boottime() - last > 4 * self._every_s + 1
            last = boottime()
            try:
                is_mine = self._presence.lock(LOCK, self._owner, ttl_s=4 * self._every_s)
                # also when another looks now: it may be gone before the leases of those who slept are renewed
                if jumped or not self._reachable:
                    self._quiet_until = time.monotonic() + self._settle_s
                self._reachable = True
                if is_mine:
                    self.look()
            except StoreDenied as error:
                # whoever may not look at the store leaves this to those who may
                log.warning("janitor_rests", reason=str(error)[:300])
                with suppress(BrokerError):
                    self._presence.unlock(LOCK, self._owner)
                self._ended.wait(RESTS * self._every_s)
            except InfrastructureError as error:
                if isinstance(error, BrokerError):
                    self._reachable = False
                if not self._ended.is_set():
                    log.warning("janitor_waits", reason=str(error)[:300])

    def look(self) -> None:
        """Look at every shard of every open dispatch once. A dispatch that cannot be read does not hide the others.

        Raises:
            BrokerError, StoreError: no answer for any of them; nothing half-done is left.
        """
        failed: InfrastructureError | None = None
        for scope in self._book.open_dispatches():
            try:
                self._look_into(scope)
            except InfrastructureError as error:
                failed = error
            except (MstError, ValueError) as error:
                log.warning("dispatch_unreadable", scope=scope[:100], reason=str(error)[:300])
        if failed is not None:
            raise failed

    def _look_into(self, scope: str) -> None:
        head = self._book.head(scope)
        if head is None or head.closed:
            return
        idle_ms = self._presence.queue_idle_ms(head.queue)
        now_ms = self._book.now_ms()
        for shard, entry in self._book.entries(head):
            self._look_at(head, head.ref(shard), entry, idle_ms, now_ms)

    def _look_at(self, head: Head, ref: ShardRef, entry: Entry, idle_ms: int, now_ms: int) -> None:
        need = needed(entry, queue_idle_ms=idle_ms, now_ms=now_ms)
        if need is None:
            return
        keys = RunKeys(head.eval_name, ref.run_id).dispatch(ref.dispatch).shard(ref.shard)
        if read_shard(self._store, keys) is not None:
            self._ledger.mark_committed(ref, done=entry.units)
            return
        if need == "give_up":
            self._ledger.give_up(ref)
        elif need == "send":
            self._send_again(ref, entry)
        elif time.monotonic() >= self._quiet_until:
            answer = self._ledger.expire(ref, entry.attempt_id).answer
            log.info("lease_expired", run_id=ref.run_id, shard=ref.shard, attempt=entry.attempt_id, answer=answer)
            if answer == "queued":
                self._send_again(ref, entry)
            elif answer == "past_limit":
                self._ledger.give_up(ref)

    def _send_again(self, ref: ShardRef, entry: Entry) -> None:
        signed = self._book.envelope(ref)
        if signed is None:
            return
        # not verified here: a forged envelope reaches workers as well without us, and they verify
        envelope = Envelope.model_validate(signed.payload)
        send_shard(self._send, self._ledger, signed, envelope, entry.n + 1)
        log.info("shard_sent_again", run_id=ref.run_id, shard=ref.shard, attempt=entry.n + 1)
