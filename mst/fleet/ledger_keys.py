"""Names of what the fleet keeps in Redis. All begin with the pool's prefix; those of a dispatch share a hash tag."""

from __future__ import annotations

import re
from dataclasses import dataclass

from mst.errors import UsageError
from mst.model.fleet import ShardRef
from mst.model.shard import UnitKey, key_digest

DEFAULT_PREFIX = "mst:"
_PREFIX = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,62}:")


def unit_token(key: UnitKey) -> str:
    """A unit's name in Redis: 24 hex digits of its key's digest. Case IDs stay out of the broker."""
    return key_digest(key)[:24]


@dataclass(frozen=True)
class Keys:
    """Key names under one prefix.

    Raises:
        UsageError: the prefix is not letters, digits and `._-`, ending with a colon.
    """

    prefix: str = DEFAULT_PREFIX

    def __post_init__(self) -> None:
        if not _PREFIX.fullmatch(self.prefix):
            raise UsageError(f"fleet prefix {self.prefix!r}: letters, digits and ._- and then a colon, as in mst:")

    def head(self, scope: str) -> str:
        """Hash: what holds for a whole dispatch. Written last, so a dispatch without it was never sent."""
        return f"{self.prefix}{{{scope}}}:head"

    def shards(self, scope: str) -> str:
        """Sorted set: the numbers of a dispatch's shards."""
        return f"{self.prefix}{{{scope}}}:shards"

    def entry(self, scope: str, shard: int) -> str:
        """Hash: one shard's entry, with its envelope."""
        return f"{self.prefix}{{{scope}}}:{shard}"

    def flight(self, scope: str, shard: int) -> str:
        """Set: units that began and have not ended."""
        return f"{self.entry(scope, shard)}:flight"

    def crashes(self, scope: str, shard: int) -> str:
        """Hash: in how many lost attempts a unit was in flight."""
        return f"{self.entry(scope, shard)}:crashes"

    def events(self, scope: str) -> str:
        """Stream, capped: what happened, for whoever shows progress."""
        return f"{self.prefix}{{{scope}}}:events"

    def of_move(self, ref: ShardRef) -> list[str]:
        """The keys of a move, in the order in which its script expects them."""
        scope, shard = ref.scope, ref.shard
        return [
            self.head(scope),
            self.entry(scope, shard),
            self.flight(scope, shard),
            self.crashes(scope, shard),
            self.events(scope),
        ]

    def dispatches(self) -> str:
        """Sorted set: open dispatches, for janitors. Scores are when their keys go."""
        return f"{self.prefix}dispatches"

    def workers(self, queue: str) -> str:
        """Sorted set: who serves a queue. Scores are when each is taken for gone."""
        return f"{self.prefix}workers:{queue}"

    def scalers(self, queue: str) -> str:
        """Sorted set: pools that start machines for a queue. Scores are when each is taken for gone."""
        return f"{self.prefix}scalers:{queue}"

    def queue(self, queue: str) -> str:
        """List: the queue as Celery stores it, given that its global prefix is ours."""
        return f"{self.prefix}{queue}"

    def queue_idle(self, queue: str) -> str:
        """String: since when a queue is empty."""
        return f"{self.prefix}idle:{queue}"

    def drain(self, worker: str) -> str:
        """String: this worker was asked to take no more shards."""
        return f"{self.prefix}drain:{worker}"

    def resting(self, worker: str) -> str:
        """String: why this worker takes no shards now, although it is there."""
        return f"{self.prefix}resting:{worker}"

    def lock(self, name: str) -> str:
        """String: a short lock and its owner."""
        return f"{self.prefix}lock:{name}"

    def refusals(self, scope: str) -> str:
        """Stream, capped: workers that refuse what was sent."""
        return f"{self.prefix}{{{scope}}}:refused"

    def token_requests(self, scope: str) -> str:
        """Stream, capped: workers that need a credential renewed."""
        return f"{self.prefix}{{{scope}}}:tokens"

    def token_answer(self, scope: str, attempt: str) -> str:
        """String: the answer to one attempt, sealed to its own key."""
        return f"{self.prefix}{{{scope}}}:token:{attempt}"

    def limits(self) -> str:
        """Prefix of everything that limits on calls need."""
        return f"{self.prefix}limit:"

    def faults(self, scope: str) -> str:
        """Hash: faults of a dispatch's judges, and which of them are stopped."""
        return f"{self.prefix}{{{scope}}}:faults"

    def spend(self, run_id: str) -> str:
        """Hash: what a run's units cost, by unit and attempt."""
        return f"{self.prefix}spend:{run_id}"
