"""Units on their way to the store: durable there first, told to the ledger after.

The ledger is told at once of what comes alone. While units follow each other faster than `SPACING_S`, what begins and
ends meanwhile is told together: a question to the broker for each would cost more than a quick unit itself.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from collections.abc import Set as AbstractSet
from pathlib import Path
from types import TracebackType
from typing import Self

from mst.errors import BrokerError, StoreError
from mst.fleet.ledger import FLIGHT_MAX, Ledger
from mst.fleet.ledger_keys import unit_token
from mst.fleet.ledger_states import Reply
from mst.model.fleet import ShardRef
from mst.model.manifest import ManifestFile, Pack
from mst.model.shard import UnitKey
from mst.shards.contract import UnitDone
from mst.store.contract import Store
from mst.store.layout import ShardKeys
from mst.store.sink import UnitFiles, UnitSink

SPACING_S = 0.2
"""From one word to the ledger to the next."""


class Delivery:
    """Uploads of one attempt. Use as a context manager; leaving it waits for what is under way.

    Attributes:
        packs: those that are durable, with their keys.
        paths: everything that is durable, in packs or as objects of its own.
    """

    def __init__(
        self,
        store: Store,
        keys: ShardKeys,
        ledger: Ledger,
        ref: ShardRef,
        attempt_id: str,
        *,
        done: int,
        heed: Callable[[Reply], None],
        ending: Callable[[], bool] = lambda: False,
        leaving: Callable[[], bool] = lambda: False,
    ) -> None:
        """Nothing is taken yet.

        Args:
            store: where to.
            keys: of the shard.
            ledger: told of progress.
            ref: the shard there.
            attempt_id: the whole ID.
            done: units of the shard that are durable already.
            heed: gets the ledger's answers, which may carry a cancel.
            ending, leaving: see `UnitSink`.
        """
        self._sink = UnitSink(store, keys, attempt_id, stored=self._note, ending=ending, leaving=leaving)
        self._ledger = ledger
        self._ref = ref
        self._attempt_id = attempt_id
        self._done = done
        self._heed = heed
        self._lock = threading.Lock()
        self._stored: set[str] = set()
        self._began: list[str] = []
        self._ended: list[str] = []
        self._doubtful: set[str] = set()
        """Units of which the broker may know that they began: only its answer was lost."""
        self._told_done = done
        self._told_at = -SPACING_S

    @property
    def error(self) -> StoreError | None:
        """Why uploading had to end; nothing is taken any more then."""
        return self._sink.error

    @property
    def is_behind(self) -> bool:
        """See `UnitSink.is_behind`."""
        return self._sink.is_behind

    @property
    def files(self) -> Sequence[ManifestFile]:
        """Manifest entries of the durable files that are objects of their own."""
        return list(self._sink.files.values())

    @property
    def packs(self) -> Sequence[Pack]:
        """Durable packs, with their keys."""
        return self._sink.packs

    @property
    def paths(self) -> AbstractSet[str]:
        """Everything that is durable, in packs or not."""
        return self._sink.paths

    def __enter__(self) -> Self:
        self._sink.__enter__()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._sink.__exit__(kind, error, trace)
        if self.error is None:
            self.tell(soon=False)

    def has_stored(self, key: UnitKey) -> bool:
        """Whether a unit that was taken is durable."""
        return unit_token(key) in self._stored

    def abandon(self) -> None:
        """Upload nothing more: the shard is somebody else's."""
        self._sink.abandon()

    def started(self, key: UnitKey) -> None:
        """Tell the ledger that a unit began: what is in flight when a worker is lost twice is given up."""
        with self._lock:
            self._began.append(unit_token(key))
        self.tell()

    def take(self, done: UnitDone, paths: Sequence[Path]) -> None:
        """Take a finished unit's files, its own first. Blocks while too many wait, but not at the end.

        Raises:
            StoreError: uploading has failed; the shard should end.
        """
        token = unit_token(done.key)
        with self._lock:
            # not in flight any more, so not to blame when the next unit takes the worker down before this is durable
            self._ended.append(token)
        self._sink.take(UnitFiles(token, paths[0], paths[1:]))

    def _note(self, tokens: Sequence[str]) -> None:
        with self._lock:
            self._stored.update(tokens)
            self._done += len(tokens)
        self.tell()

    def tell(self, *, soon: bool = True) -> None:
        """Tell the ledger what it does not know yet, if anything.

        Args:
            soon: not before `SPACING_S` after the last time; whoever says so calls again.
        """
        with self._lock:
            is_news = self._began or self._ended or self._done != self._told_done
            if not is_news or (soon and time.monotonic() - self._told_at < SPACING_S):
                return
            self._told_at = time.monotonic()
            began, ended, done = self._news()
        try:
            reply = self._ledger.progress(self._ref, self._attempt_id, done=done, started=began, finished=ended)
        except BrokerError:
            # the store has the units, and progress is for people; what began and ended is told with the next
            with self._lock:
                self._began[:0], self._ended[:0] = began, ended
                self._doubtful.update(began)
            return
        with self._lock:
            self._told_done = max(self._told_done, done)
        self._heed(reply)

    def _news(self) -> tuple[list[str], list[str], int]:
        """What began and is not over, what is over, as much as one word may hold, and the count. With the lock held."""
        over, unheard = set(self._ended), set(self._began) - self._doubtful
        began = [token for token in self._began if token not in over]
        ended = [token for token in self._ended if token not in unheard]
        most = FLIGHT_MAX - min(len(began), FLIGHT_MAX)
        self._began, self._ended = began[FLIGHT_MAX:], ended[most:]
        return began[:FLIGHT_MAX], ended[:most], self._done
