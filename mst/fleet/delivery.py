"""Units on their way to the store: durable there first, told to the ledger after.

A few threads upload while the shard goes on. When the store does not answer, finished units wait on disk up to a
bound, and then the shard waits too.
"""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Self

from mst.config.files import hash_file
from mst.errors import BrokerError, StoreError
from mst.fleet.ledger import Ledger
from mst.fleet.ledger_keys import unit_token
from mst.fleet.ledger_states import Outcome
from mst.model.fleet import ShardRef
from mst.model.manifest import ManifestFile
from mst.model.shard import UnitKey
from mst.shards.contract import UnitDone
from mst.shards.units import ARTIFACTS, UNITS
from mst.store.contract import Store
from mst.store.layout import ShardKeys

THREADS = 4
WAITING_MAX = 100
"""Finished units that may wait on disk before the shard waits."""


@dataclass(frozen=True)
class _Parcel:
    key: UnitKey
    paths: Sequence[Path]


class Delivery:
    """Uploads of one attempt. Use as a context manager; leaving it waits for what is under way.

    Attributes:
        error: why uploading had to end; nothing is taken any more then.
        files: manifest entries of everything that is durable, by path.
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
        heed: Callable[[Outcome], None],
    ) -> None:
        """Nothing is taken yet.

        Args:
            done: units of the shard that are durable already.
            heed: gets the ledger's answers, which may carry a cancel.
        """
        self.error: StoreError | None = None
        self.files: dict[str, ManifestFile] = {}
        self._store = store
        self._keys = keys
        self._ledger = ledger
        self._ref = ref
        self._attempt_id = attempt_id
        self._done = done
        self._heed = heed
        self._abandoned = False
        self._waiting: queue.Queue[_Parcel | None] = queue.Queue(WAITING_MAX)
        self._lock = threading.Lock()
        self._threads = [
            threading.Thread(target=self._work, daemon=True, name=f"mst-upload-{number}") for number in range(THREADS)
        ]

    def __enter__(self) -> Self:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.drain()

    def drain(self) -> None:
        """Wait until everything that was taken is durable, or uploading has failed. Safe to call twice."""
        for thread in self._threads:
            if thread.is_alive():
                self._waiting.put(None)
        for thread in self._threads:
            thread.join()

    def abandon(self) -> None:
        """Upload nothing more: the shard is somebody else's."""
        self._abandoned = True

    def started(self, key: UnitKey) -> None:
        """Tell the ledger that a unit began: what is in flight when a worker is lost twice is given up."""
        self._tell(started=[unit_token(key.to_dict())])

    def take(self, done: UnitDone, paths: Sequence[Path]) -> None:
        """Take a finished unit's files, its own first. Blocks while too many wait.

        Raises:
            StoreError: uploading has failed; the shard should end.
        """
        if self.error is not None:
            raise self.error
        self._waiting.put(_Parcel(done.key, paths))

    def _work(self) -> None:
        while (parcel := self._waiting.get()) is not None:
            if self.error is not None or self._abandoned:
                continue
            try:
                self._upload(parcel)
            except StoreError as error:
                self.error = error

    def _upload(self, parcel: _Parcel) -> None:
        # the unit's own file last: whoever finds it finds its artifacts too
        entries = [self._put(path) for path in reversed(parcel.paths)]
        with self._lock:
            self.files.update({entry.path: entry for entry in entries})
            self._done += 1
            done = self._done
        self._tell(done=done, finished=[unit_token(parcel.key.to_dict())])

    def _put(self, path: Path) -> ManifestFile:
        relative = f"{UNITS}/{path.name}" if path.parent.name == UNITS else f"{ARTIFACTS}/{path.name}"
        with self._lock:
            known = self.files.get(relative)
        if known is not None and relative.startswith(ARTIFACTS):
            return known
        sha256 = hash_file(path)
        key = self._keys.unit(self._attempt_id, path.name)
        self._store.put(key, path, sha256=sha256)
        return ManifestFile(path=relative, size=path.stat().st_size, sha256=sha256, object=key)

    def _tell(self, *, done: int | None = None, started: Sequence[str] = (), finished: Sequence[str] = ()) -> None:
        try:
            count = done if done is not None else self._done
            outcome = self._ledger.progress(self._ref, self._attempt_id, done=count, started=started, finished=finished)
        except BrokerError:
            return  # progress is for people; the store has the unit
        self._heed(outcome)
