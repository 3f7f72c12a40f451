"""Units of a shard's attempt on their way into the store: singly while they are slow, together when they are fast.

A unit that ended alone is durable one request later. While requests follow each other faster than `SPACING_S`, units
that end meanwhile wait for each other and go as one pack (docs/reference/packs.md, "A shard's units").
"""

from __future__ import annotations

import hashlib
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Self

from mst.errors import StoreError
from mst.model.manifest import ManifestFile, Pack
from mst.store.contract import Store
from mst.store.layout import ShardKeys, index_key, pack_key
from mst.store.pack import PACK_BYTES, SMALL_BYTES, Packed, Packer
from mst.store.streams import digest_file, file_size, read_small

SPACING_S = 1.0
"""From the start of one send to that of the next, unless a pack is full."""
TOGETHER = 1024
"""So many waiting units are a full pack."""
WAITING_MAX = 4096
WAITING_BYTES = 2 * 1024**3
STALLED_S = 10.0
"""A store that has taken nothing for so long is away: the work that it would lose is kept small, see `AWAY_MAX`."""
AWAY_MAX = 100
"""So many units are taken, and not stored yet, while the store is away."""
LEAVING_S = 10.0
"""How long what was taken may still be sent when nobody can wait for the store any more."""
LOOK_EVERY_S = 0.2
SENDERS = 2
SINGLY = 2
"""Up to so many small files go one by one: a pack and its index are two requests too."""


@dataclass(frozen=True)
class UnitFiles:
    """A finished unit.

    Attributes:
        token: what `stored` is called with.
        own: the unit's file, below `units/` in the manifest by its name.
        beside: files that belong to it, below `artifacts/` by their names, which tell their content.
    """

    token: str
    own: Path
    beside: Sequence[Path] = ()


def _never() -> bool:
    return False


@dataclass
class _Batch:
    units: list[UnitFiles]
    mine: dict[str, Path] = field(default_factory=dict)
    after: set[int] = field(default_factory=set)
    number: int = 0


class UnitSink:
    """Sends units with a few threads. Use as a context manager; leaving it waits for all that was taken.

    Attributes:
        error: why sending ended; nothing is taken any more then.
        files: manifest entries of single objects that are durable, by path.
        packs: those that are durable, with their keys.
        paths: everything that `files` and `packs` hold.
    """

    def __init__(
        self,
        store: Store,
        keys: ShardKeys,
        attempt: str,
        *,
        stored: Callable[[Sequence[str]], None],
        ending: Callable[[], bool] = _never,
        leaving: Callable[[], bool] = _never,
        spacing_s: float = SPACING_S,
        senders: int = SENDERS,
    ) -> None:
        """Nothing is sent yet.

        Args:
            store: where to.
            keys: of the shard.
            attempt: ID of the attempt.
            stored: called from a sending thread with the tokens of units that are durable from now on, each once.
            ending: whether no more units start: the few that still come are taken at once, however many wait.
            leaving: whether the machine goes away: what is not sent within `LEAVING_S` stays on disk.
            spacing_s: see `SPACING_S`.
            senders: sends at once.
        """
        self.error: StoreError | None = None
        self.files: dict[str, ManifestFile] = {}
        self.packs: list[Pack] = []
        self.paths: set[str] = set()
        self._store = store
        self._keys = keys
        self._attempt = attempt
        self._stored = stored
        self._is_ending = ending
        self._is_leaving = leaving
        self._spacing_s = spacing_s
        self._waiting: deque[tuple[UnitFiles, int]] = deque()
        self._waiting_bytes = 0
        self._sending = 0
        self._moved_at = time.monotonic()
        self._began_at = -spacing_s
        self._batches = 0
        self._open: set[int] = set()
        self._owner: dict[str, int] = {}
        self._ending = False
        self._change = threading.Condition()
        self._threads = [
            threading.Thread(target=self._work, daemon=True, name=f"mst-units-{number}") for number in range(senders)
        ]

    def __enter__(self) -> Self:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.drain()

    def take(self, unit: UnitFiles) -> None:
        """Take a finished unit; its files must stay as they are. Blocks while too many wait, but not at the end.

        Raises:
            StoreError: sending has failed.
        """
        size = sum(file_size(path) for path in (*unit.beside, unit.own))
        with self._change:
            while self._has_enough() and self.error is None and not self._is_ending():
                self._change.wait(LOOK_EVERY_S)
            if self.error is not None:
                raise self.error
            if not self._waiting and not self._sending:
                self._moved_at = time.monotonic()
            self._waiting.append((unit, size))
            self._waiting_bytes += size
            self._change.notify_all()

    @property
    def is_behind(self) -> bool:
        """Whether half of what may wait does, so that no further unit should start."""
        with self._change:
            return self._has_enough(part=2)

    def drain(self) -> None:
        """Send what waits without further delay and wait for it, or for a failure. Safe to call twice."""
        with self._change:
            self._ending = True
            self._change.notify_all()
        leave_at: float | None = None
        for thread in self._threads:
            while thread.is_alive():
                thread.join(LOOK_EVERY_S)
                if leave_at is None and self._is_leaving():
                    leave_at = time.monotonic() + LEAVING_S
                if leave_at is not None and time.monotonic() >= leave_at:
                    # a thread that waits for an answer ends with its process
                    self._fail(StoreError(f"{self._store.uri}: did not take all units before the end"))
                    return

    def abandon(self) -> None:
        """Send nothing more: the shard is somebody else's."""
        with self._change:
            self._waiting.clear()
            self._waiting_bytes = 0
            self._change.notify_all()

    def _has_enough(self, *, part: int = 1) -> bool:
        """Whether as much waits as may, or that part of it. With the lock held."""
        if len(self._waiting) >= WAITING_MAX // part or self._waiting_bytes >= WAITING_BYTES // part:
            return True
        is_away = time.monotonic() - self._moved_at > STALLED_S
        return is_away and len(self._waiting) + self._sending >= AWAY_MAX // part

    def _work(self) -> None:
        while (batch := self._next()) is not None:
            try:
                self._send(batch)
            except StoreError as error:
                self._fail(error)
            except Exception as error:  # noqa: BLE001 - the end of a thread: who waits for it must learn why
                failed = StoreError(f"units cannot be sent: {error}")
                failed.__cause__ = error
                self._fail(failed)
            with self._change:
                self._open.discard(batch.number)
                self._sending -= len(batch.units)
                self._moved_at = time.monotonic()
                self._change.notify_all()

    def _fail(self, error: StoreError) -> None:
        with self._change:
            self.error = self.error or error
            self._waiting.clear()
            self._change.notify_all()

    def _next(self) -> _Batch | None:
        with self._change:
            while True:
                if self._waiting and self.error is None:
                    wait_s = self._began_at + self._spacing_s - time.monotonic()
                    if self._ending or self._is_full() or wait_s <= 0:
                        return self._begin()
                    self._change.wait(wait_s)
                elif self._ending or self.error is not None:
                    return None
                else:
                    self._change.wait()

    def _is_full(self) -> bool:
        return self._waiting_bytes >= PACK_BYTES or len(self._waiting) >= TOGETHER

    def _begin(self) -> _Batch:
        """Take the next units that fit one pack, at least one. With the lock held."""
        self._began_at = time.monotonic()
        self._batches += 1
        batch, total = _Batch([], number=self._batches), 0
        while self._waiting and len(batch.units) < TOGETHER:
            unit, size = self._waiting[0]
            if batch.units and total + size > PACK_BYTES:
                break
            self._waiting.popleft()
            self._waiting_bytes -= size
            total += size
            batch.units.append(unit)
            for path in unit.beside:
                self._claim(batch, f"artifacts/{path.name}", path)
            batch.mine[f"units/{unit.own.name}"] = unit.own
        self._open.add(batch.number)
        self._sending += len(batch.units)
        self._change.notify_all()
        return batch

    def _claim(self, batch: _Batch, name: str, path: Path) -> None:
        """A file that several units share is sent with the first of them; the others wait for that."""
        owner = self._owner.setdefault(name, batch.number)
        if owner == batch.number:
            batch.mine[name] = path
        else:
            batch.after.add(owner)

    def _send(self, batch: _Batch) -> None:
        # In order of `mine`, so a unit's file never stands before what lies beside it.
        small = [(name, path) for name, path in batch.mine.items() if file_size(path) <= SMALL_BYTES]
        large = [(name, path) for name, path in batch.mine.items() if file_size(path) > SMALL_BYTES]
        singly = small if len(small) <= SINGLY else []
        self._put_singly([(name, path) for name, path in large if not name.startswith("units/")])
        self._await(batch)
        self._put_singly(singly)
        self._put_packs(small if not singly else [])
        self._put_singly([(name, path) for name, path in large if name.startswith("units/")])
        self._stored([unit.token for unit in batch.units])

    def _await(self, batch: _Batch) -> None:
        with self._change:
            while self.error is None and batch.after & self._open:
                self._change.wait()
            if self.error is not None:
                raise self.error

    def _put_singly(self, files: Iterable[tuple[str, Path]]) -> None:
        for name, path in files:
            found = digest_file(path)
            key = self._keys.unit(self._attempt, path.name)
            self._store.put(key, path, sha256=found.sha256)
            entry = ManifestFile(path=name, size=found.size, sha256=found.sha256, object=key)
            with self._change:
                self.files[name] = entry
                self.paths.add(name)

    def _put_packs(self, files: Iterable[tuple[str, Path]]) -> None:
        packer, names = Packer(later_bytes=PACK_BYTES), list[str]()
        for name, path in files:
            data = read_small(path)
            full = packer.add(name, data, hashlib.sha256(data).hexdigest())
            if full is not None:
                self._put_pack(full, names)
                names = []
            names.append(name)
        last = packer.finish()
        if last is not None:
            self._put_pack(last, names)

    def _put_pack(self, packed: Packed, names: Iterable[str]) -> None:
        folder, pack = self._keys.attempt(self._attempt), packed.pack
        key, index = pack_key(folder, pack.sha256), index_key(folder, pack.index_sha256)
        self._store.put(key, packed.data)
        self._store.put(index, packed.index)
        with self._change:
            self.packs.append(pack.model_copy(update={"object": key, "index_object": index}))
            self.paths.update(names)
