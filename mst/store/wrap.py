"""Patience around a store: what may be tried again is, for a limited time, with growing random waits.

A write whose answer was lost may have happened. So a conditional write that fails on a second try is looked at:
when exactly our bytes are there, it was ours. Racing writers must therefore write different bytes, for instance their
attempt ID.
"""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

from mst.errors import MstError, ObjectMissing, PreconditionFailed, StoreUnavailable
from mst.store.contract import GET_MAX_BYTES, Digested, Folder, ObjectInfo, Store

T = TypeVar("T")

CHECK = "check the network, and the endpoint and region of the store"
CHECK_MOUNT = "check that its disk or share is there"

PATIENCE_S = 60.0
FIRST_WAIT_S = 0.2
LONGEST_WAIT_S = 15.0
NOTICE_S = 2.0
"""Nobody is told of a silence shorter than this."""


def wait(seconds: float) -> None:
    """Do nothing for so long."""
    threading.Event().wait(seconds)


@dataclass(frozen=True)
class Patience:
    """How long one call goes on trying, and with what clock.

    Attributes:
        patience_s: no new try begins later than this after the first has failed, however long that took; 0 never tries
            again.
        sleep: waits so many seconds; may raise to give up early (a drain, a cancel).
        clock: monotonic seconds.
        draw: a uniform number between two bounds.
        notice: told, in a line for people, of every call that is still tried again after `NOTICE_S`, each once.
        check: what people are told to look at.
    """

    patience_s: float = PATIENCE_S
    sleep: Callable[[float], None] = wait
    clock: Callable[[], float] = time.monotonic
    draw: Callable[[float, float], float] = field(default=random.uniform)
    notice: Callable[[str], None] = lambda _line: None
    check: str = CHECK

    def start(self) -> Tries:
        """The count of one call's tries."""
        return Tries(self)


class Tries:
    """One call's tries so far."""

    def __init__(self, patience: Patience) -> None:
        self._patience = patience
        self._began = patience.clock()
        self._failed_at: float | None = None
        self._longest_s = FIRST_WAIT_S
        self.failed = 0
        self._told = False

    def pause(self, error: MstError) -> None:
        """Wait before the next try.

        Raises:
            MstError: `error` itself when it is not retryable.
            StoreUnavailable: patience is at its end; names the number of tries and the last error.
        """
        if not error.retryable:
            raise error
        self.failed += 1
        wait_s = self._patience.draw(self._longest_s / 2, self._longest_s)
        now = self._patience.clock()
        if self._failed_at is None:
            self._failed_at = now
        spent_s = now - self._began
        if now - self._failed_at + wait_s > self._patience.patience_s:
            raise StoreUnavailable(f"{error} (tried {self.failed} times in {spent_s:.0f} s)") from error
        if spent_s + wait_s > NOTICE_S and not self._told:
            self._told = True
            most_s = self._patience.patience_s
            self._patience.notice(f"{error}; trying again for up to {most_s:.0f} s - {self._patience.check}")
        self._longest_s = min(self._longest_s * 2, LONGEST_WAIT_S)
        self._patience.sleep(wait_s)


class PatientStore:
    """A store whose retryable errors are retried. Everything else is the inner store's."""

    def __init__(self, inner: Store, patience: Patience) -> None:
        self._inner = inner
        self._patience = patience

    @property
    def uri(self) -> str:
        """See `Store.uri`."""
        return self._inner.uri

    def get(self, key: str, *, max_bytes: int = GET_MAX_BYTES) -> bytes:
        """See `Store.get`."""
        return self._call(lambda: self._inner.get(key, max_bytes=max_bytes))

    def get_to(self, key: str, path: Path) -> Digested:
        """See `Store.get_to`. A stream that breaks off starts again from the beginning."""
        return self._call(lambda: self._inner.get_to(key, path))

    def get_range(self, key: str, start: int, length: int) -> bytes | memoryview:
        """See `Store.get_range`."""
        return self._call(lambda: self._inner.get_range(key, start, length))

    def put(self, key: str, data: bytes | memoryview | Path, *, sha256: str | None = None) -> None:
        """See `Store.put`."""
        self._call(lambda: self._inner.put(key, data, sha256=sha256))

    def put_if_absent(self, key: str, data: bytes) -> None:
        """See `Store.put_if_absent`."""
        self._conditional(key, data, lambda: self._inner.put_if_absent(key, data))

    def replace_if_match(self, key: str, data: bytes, version: str) -> None:
        """See `Store.replace_if_match`."""
        self._conditional(key, data, lambda: self._inner.replace_if_match(key, data, version))

    def head(self, key: str) -> ObjectInfo | None:
        """See `Store.head`."""
        return self._call(lambda: self._inner.head(key))

    def list(self, prefix: str) -> Iterator[ObjectInfo]:
        """See `Store.list`. A listing that breaks off starts again and leaves out what it gave; it keeps those keys."""
        tries, given = self._patience.start(), set[str]()
        listing: Iterator[ObjectInfo] | None = None
        while True:
            try:
                listing = self._inner.list(prefix) if listing is None else listing
                info = next(listing, None)
            except MstError as error:
                tries.pause(error)
                listing = None
                continue
            if info is None:
                return
            if info.key not in given:
                given.add(info.key)
                tries = self._patience.start()
                yield info

    def list_folder(self, prefix: str) -> Folder:
        """See `Store.list_folder`."""
        return self._call(lambda: self._inner.list_folder(prefix))

    def delete(self, key: str) -> None:
        """See `Store.delete`."""
        self._call(lambda: self._inner.delete(key))

    def _call(self, action: Callable[[], T]) -> T:
        tries = self._patience.start()
        while True:
            try:
                return action()
            except MstError as error:
                tries.pause(error)

    def _conditional(self, key: str, data: bytes, write: Callable[[], None]) -> None:
        tries = self._patience.start()
        while True:
            try:
                return write()
            except PreconditionFailed:
                if tries.failed and self._holds(key, data):
                    return None
                raise
            except MstError as error:
                tries.pause(error)

    def _holds(self, key: str, data: bytes) -> bool:
        """Whether the object has exactly these bytes."""
        found = self.head(key)
        if found is None or found.size != len(data):
            return False
        try:
            return self.get(key) == data
        except ObjectMissing:
            return False
