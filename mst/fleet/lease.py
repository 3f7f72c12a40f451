"""Keeping a shard's lease from a thread of its own, whatever the shard's work is doing.

No answer is not a no: work goes on, and the store decides at commit. Only `lost` stops it.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from types import TracebackType
from typing import Literal, Self

import structlog

from mst.errors import BrokerError
from mst.fleet.host import renewal_s
from mst.fleet.ledger import Ledger
from mst.fleet.ledger_states import Reply
from mst.fleet.metrics import Uncounted
from mst.model.fleet import ShardRef
from mst.shards.contract import Cancel

log = structlog.get_logger(__name__)

StopReason = Literal["lost", "cancelled", "drain", "store", "waiting_token"]


class Lease:
    """An attempt's lease while it works. Use as a context manager.

    Attributes:
        cancel: what the supervisor watches; set here when the shard is lost, cancelled, or the worker drains.
        why: the first reason for which it was set.
    """

    def __init__(
        self,
        ledger: Ledger,
        ref: ShardRef,
        attempt_id: str,
        *,
        ttl_s: float,
        draining: threading.Event,
        hurrying: threading.Event | None = None,
        counts: Uncounted | None = None,
    ) -> None:
        self.cancel = Cancel()
        self.why: StopReason | None = None
        self._ledger = ledger
        self._ref = ref
        self._attempt_id = attempt_id
        self._every_s = renewal_s(ttl_s)
        self._draining = draining
        self._hurrying = hurrying or threading.Event()
        self._hurried = False
        self._counts = counts or Uncounted()
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._keep, daemon=True, name=f"mst-lease-{ref.shard}")

    def __enter__(self) -> Self:
        self._counts.lease_held(str(self._ref), time.monotonic())
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._ended.set()
        self._thread.join()
        self._counts.lease_held(str(self._ref), None)

    def stop(self, why: StopReason, detail: str, grace_s: float | None) -> None:
        """Ask the work to end, once for each more pressing reason.

        Args:
            grace_s: for the units in flight; None lets them take their own time limit.
        """
        if self.why is None or (grace_s == 0 and self.why != "lost"):
            log.info("attempt_stops", shard=self._ref.shard, attempt=self._attempt_id, why=why, detail=detail[:200])
            self.why = why
            self.cancel.set(detail, grace_s)

    def _keep(self) -> None:
        due = boottime()
        while not self._ended.wait(min(self._every_s, 0.5)):
            if self._draining.is_set() and self.why is None:
                self.stop("drain", "the worker is being stopped", None)
            if self._hurrying.is_set() and not self._hurried:
                self._hurried = True
                self.stop("drain", "the machine is going away", 0)
            # the boot-time clock also counts while a machine sleeps, so a jump makes the renewal due at once
            if boottime() >= due:
                due = boottime() + self._every_s
                self._renew()

    def _renew(self) -> None:
        try:
            reply = self._ledger.renew(self._ref, self._attempt_id)
        except BrokerError:
            return
        self._counts.lease_held(str(self._ref), time.monotonic())
        if reply.answer == "lost":
            self.stop("lost", f"the lease was lost ({reply.why})", 0)
        else:
            self.heed(reply)

    def heed(self, reply: Reply) -> None:
        """Stop at the unit's end when an answer of the ledger carries a cancel.

        Only a renewal's `lost` is taken for one: a ledger that was written again knows this attempt after it.
        """
        if reply.cancel and self.why is None:
            self.stop("cancelled", reply.cancel, None)


def boottime() -> float:
    """Seconds since the machine was started, its sleep included."""
    clock: Callable[[], float] | None = getattr(time, "CLOCK_BOOTTIME", None)
    return time.clock_gettime(time.CLOCK_BOOTTIME) if clock is not None else time.monotonic()
