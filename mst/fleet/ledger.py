"""The ledger in Redis: who works on which shard. One Lua script a move, so every move is whole or not done at all.

The store stays the truth. Losing Redis loses leases and progress; `write_dispatch` then builds the entries again.
Every method may be called from any thread, blocks until Redis answers (at most the client's time limits), is safe to
repeat after a lost answer, and raises `BrokerError` when there is none: no answer is never a no.
"""

from __future__ import annotations

import re
import time
from collections.abc import Iterable
from typing import Literal, cast, get_args

from mst.errors import BrokerError, InvariantError
from mst.fleet.connect import RedisClient
from mst.fleet.ledger_keys import DEFAULT_PREFIX, Keys
from mst.fleet.ledger_states import Answer, Reply
from mst.fleet.scripts import Scripts
from mst.model.fleet import ShardRef

REASON_MAX = 200
FLIGHT_MAX = 1024
"""Tokens in one progress report."""
SILENT_S = 2.0
HUSH_S = 10.0
"""After an answer that did not come for `SILENT_S`, progress is kept to oneself for so long: no unit waits for it."""

_TOKEN = re.compile(r"[0-9a-f]{16}")
_ATTEMPT = re.compile(r"[1-9]\d*-[0-9a-f]{16}")
_UNIT = re.compile(r"[0-9a-f]{8,64}")
_ANSWERS = frozenset(get_args(Answer))


class Ledger:
    """The moves on shards. Dispatches are written and read by `DispatchBook`."""

    def __init__(self, client: RedisClient, prefix: str = DEFAULT_PREFIX) -> None:
        self.keys = Keys(prefix)
        self._scripts = Scripts(client)
        self._hushed_until = 0.0

    def acquire(self, ref: ShardRef, token: str, *, worker: str) -> Reply:
        """For a task that starts: ask for the shard.

        Args:
            ref: from a verified envelope.
            token: 16 random hex digits, drawn once a task; asking again with it gives the same grant again.
            worker: who asks; `Expire` with `died` uses it.

        Returns:
            `granted` with `attempt_id`, `poison` and perhaps `cancel`; or `refused` with `why`: `leased` (a duplicate:
            drop it), `committed`, `failed`, `cancelled`, `closed`, `waiting_token`, `deadline`, `past_limit` (look
            for a manifest, then `give_up`); or `unknown` (Redis was wiped: a coordinator must rebuild; drop it).
        """
        if not _TOKEN.fullmatch(token):
            raise InvariantError("an attempt's token has 16 hex digits")
        return self._move("acquire", ref, token, worker[:REASON_MAX])

    def start(self, ref: ShardRef, attempt_id: str) -> Reply:
        """For a task whose shard worker is about to run: leased -> running.

        Returns:
            `yes`; `ignored` (`lapsed`: renew first); `lost`; `unknown`.
        """
        return self._move("start", ref, _attempt(attempt_id))

    def renew(self, ref: ShardRef, attempt_id: str) -> Reply:
        """For the supervisor's own thread, every quarter of the lease's TTL, and after every clock jump.

        Returns:
            `yes` or `revived` (go on; with `cancel` set, stop at the unit's end); `lost` (stop, kill the child,
            upload nothing more; `why` says who was first); `unknown` (wiped: go on, the store decides at commit).
        """
        return self._move("renew", ref, _attempt(attempt_id))

    def progress(
        self,
        ref: ShardRef,
        attempt_id: str,
        *,
        done: int,
        started: Iterable[str] = (),
        finished: Iterable[str] = (),
    ) -> Reply:
        """For a task, when a unit begins and after its result is durable.

        Args:
            ref: the shard.
            attempt_id: the whole ID.
            done: all durable units of the shard, those taken over included; a lower number than before is ignored.
            started: tokens (`unit_token`) of units that begin. Those in flight when an attempt is lost may be poison.
            finished: tokens of units that ended, with whatever result.

        Returns:
            `yes`, with `cancel` when no further unit should start; `lost`; `unknown`.

        Raises:
            BrokerError: also at once, without asking, when there was no answer just before.
        """
        if time.monotonic() < self._hushed_until:
            raise BrokerError(f"ledger, progress of {ref}: the broker did not answer just before")
        began, ended = list(started), list(finished)
        if len(began) + len(ended) > FLIGHT_MAX or not all(_UNIT.fullmatch(one) for one in began + ended):
            raise InvariantError(f"progress takes at most {FLIGHT_MAX} unit tokens of hex digits")
        return self._move("progress", ref, _attempt(attempt_id), done, len(began), *began, *ended)

    def give_back(self, ref: ShardRef, attempt_id: str, reason: str) -> Reply:
        """For a task that ends without a manifest while another attempt may go on. The caller then sends the shard.

        Args:
            ref: the shard.
            attempt_id: the whole ID.
            reason: one of `UNCOUNTED` (`drain`, `preempted`, `store`, ...), which is not a failed attempt, or what
                went wrong (`crashed`, `silence`, `out_of_memory`, ...), which is. `waiting_token` parks the shard.

        Returns:
            `yes` (also when it was given back already); `lost`; `unknown`.
        """
        return self._move("give_back", ref, _attempt(attempt_id), reason[:REASON_MAX])

    def finish(self, ref: ShardRef, attempt_id: str, to: Literal["failed", "cancelled"], reason: str) -> Reply:
        """For a task whose shard is over: `failed` when no attempt would fare better, `cancelled` when asked to.

        Returns:
            `yes` (also when repeated); `lost`; `unknown`.
        """
        return self._move("finish", ref, _attempt(attempt_id), to, reason[:REASON_MAX])

    def mark_committed(self, ref: ShardRef, *, done: int) -> Reply:
        """For anyone who saw a complete manifest in the store, of whatever attempt: any state -> committed.

        Returns:
            `yes`; `unknown`.
        """
        return self._move("commit", ref, done)

    def expire(self, ref: ShardRef, attempt_id: str, *, died: bool = False) -> Reply:
        """For a janitor that found a lease run out and no manifest, or (`died`) for whoever saw its worker end.

        Returns:
            `queued` (send it); `past_limit` (queued, but nobody may have it: `give_up`); `cancelled`; `ignored`
            (it was renewed or moved meanwhile); `unknown`.
        """
        return self._move("expire", ref, _attempt(attempt_id), int(died))

    def give_up(self, ref: ShardRef) -> Reply:
        """For a janitor or task that found no attempt left or the deadline passed, and no manifest: -> failed.

        Returns:
            `yes`; `ignored` (an attempt is left, or somebody holds it); `unknown`.
        """
        return self._move("give_up", ref)

    def cancel(self, ref: ShardRef, reason: str) -> Reply:
        """For `DispatchBook.cancel`: flags the whole dispatch, and ends this shard if nobody holds it.

        Returns:
            `cancelled`; `pending` (its worker is told at the next renewal); `ignored` (over already); `unknown`.
        """
        return self._move("cancel", ref, reason[:REASON_MAX])

    def requeue(self, ref: ShardRef) -> Reply:
        """For whoever stored a renewed grant: waiting_token -> queued. The caller then sends the shard.

        Returns:
            `queued`; `ignored`; `unknown`.
        """
        return self._move("requeue", ref)

    def mark_sent(self, ref: ShardRef) -> Reply:
        """For whoever put a message on the queue, right after: waits before sending again are counted from it.

        Returns:
            `yes`; `ignored` (it is not queued any more); `unknown`.
        """
        return self._move("sent", ref)

    def _move(self, name: str, ref: ShardRef, *args: str | int) -> Reply:
        asked_at = time.monotonic()
        try:
            raw = self._scripts.run(name, self.keys.of_move(ref), (ref.shard, *args), doing=f"ledger, {name} of {ref}")
        except BrokerError:
            if time.monotonic() - asked_at > SILENT_S:
                self._hushed_until = time.monotonic() + HUSH_S
            raise
        answer, why, attempt_id, cancel, *poison = raw
        if answer not in _ANSWERS:
            raise BrokerError(f"ledger, {name} of {ref}: the broker gave an answer that is none of ours")
        return Reply(cast("Answer", answer), why, attempt_id, cancel, tuple(sorted(poison)))


def _attempt(attempt_id: str) -> str:
    if not _ATTEMPT.fullmatch(attempt_id):
        raise InvariantError(f"{attempt_id!r} is not an attempt ID")
    return attempt_id
