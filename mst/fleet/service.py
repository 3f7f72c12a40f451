"""Whether anybody takes what was sent: a coordinator that waits for workers which never come should say so."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from mst.fleet.ledger_states import Entry, State
from mst.report.figures import count

SAY_AFTER_S = 3.0
"""A worker that starts anew, or whose broker was wiped, is there again within this time."""

Situation: TypeAlias = tuple[frozenset[str], frozenset[str]]
"""Workers that serve the queue, all of which rest, and pools that start some; none of either: nobody will come."""


@dataclass
class ServiceWatch:
    """The coordinator's look at one dispatch's queue. Says once what shards wait for, and again when that changes.

    Attributes:
        workers: names of those that serve the queue now.
        resting: those of them that take no shards now, with why.
        pools: names of those that start workers for the queue.
        start: what to start, for the text.
        say: told the text.
    """

    queue: str
    workers: Callable[[], Sequence[str]]
    resting: Callable[[Sequence[str]], Mapping[str, str]]
    pools: Callable[[], Sequence[str]]
    start: str
    say: Callable[[str], None]
    clock: Callable[[], float] = time.monotonic
    _said: Situation | None = None
    _seen: Situation | None = None
    _since: float = 0.0

    def look(self, entries: Mapping[int, Entry]) -> None:
        """Look at the queue, from the shards' entries.

        Raises:
            BrokerError: no answer.
        """
        waiting = sum(entry.state is State.QUEUED for entry in entries.values())
        workers = self.workers() if waiting or self._said is not None else []
        resting = self.resting(workers) if workers else {}
        is_served = not waiting or len(resting) < len(workers)
        found = None if is_served else (frozenset(workers), frozenset(() if workers else self.pools()))
        now = self.clock()
        if found != self._seen:
            self._seen, self._since = found, now
        if found == self._said or (found is not None and now - self._since < SAY_AFTER_S):
            return
        self._said = found
        if found is not None:
            self.say(self._why(waiting, resting, sorted(found[1])))
        elif workers:
            self.say(f"the queue {self.queue} is served now: {count(len(workers), 'worker')}")

    def _why(self, waiting: int, resting: Mapping[str, str], pools: Sequence[str]) -> str:
        waits = f"{count(waiting, 'shard')} wait{'s' if waiting == 1 else ''}"
        if resting:
            name, why = min(resting.items())
            take = f"take{'s' if len(resting) == 1 else ''} none now ({name}: {why})"
            seen = f"{count(len(resting), 'worker')} of the queue {self.queue} {take}"
            return f"{waits}: {seen}; make room there, or {self.start}"
        if pools:
            return f"{waits}: no worker serves the queue {self.queue} now; the pool {pools[0]} starts one for it"
        return f"{waits}: no worker serves the queue {self.queue}; {self.start}"
