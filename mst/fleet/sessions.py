"""Credentials for the store that reach one shard and soon expire: made by the coordinator, sealed for the workers.

Workers that get them need no rights of their own at the store. They are made again at half their life, as long as a
coordinator follows the dispatch; a shard whose credentials have expired waits for that.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TypeVar

import structlog

from mst.errors import BrokerError, StoreDenied, StoreError, StoreExpired
from mst.fleet.grants import GRANT_GRACE, GrantSlots, GrantTarget, open_grant, seal
from mst.fleet.keys import Opener, SigningKey
from mst.fleet.signing import Verifier
from mst.model.fleet import TrustedSigners
from mst.store.contract import GET_MAX_BYTES, Digested, Folder, ObjectInfo, Store
from mst.store.layout import DispatchKeys, ShardKeys

log = structlog.get_logger(__name__)

T = TypeVar("T")
MAKERS = 8
"""Requests to the token service at once."""
ASK_EVERY_S = 30.0
"""How often a worker looks for newer credentials once half the life of its own is over."""

Values = Mapping[str, str]
Make = Callable[[ShardKeys], tuple[Values, datetime]]
"""Credentials for one shard as environment variables, and when they expire."""


@dataclass
class ShardSessions:
    """A coordinator's side: makes credentials for shards and seals them.

    Attributes:
        make: see `Make`; one request to the token service.
        life: of credentials when they are made.
    """

    make: Make = field(repr=False)
    life: timedelta
    grants: GrantSlots
    key: SigningKey
    recipients: tuple[str, ...]
    _made_at: datetime | None = field(default=None, init=False)
    _trouble: str = field(default="", init=False)

    def issue(self, target: GrantTarget, keys: DispatchKeys, shards: Iterable[int]) -> None:
        """Make and seal credentials for these shards.

        Args:
            target: of the dispatch.
            keys: of the dispatch.
            shards: their numbers.

        Raises:
            StoreDenied, StoreUnavailable: the token service refuses, or does not answer.
            BrokerError: Redis did not take them.
        """
        now = datetime.now(UTC)
        own = Verifier(TrustedSigners(signers=[self.key.entry(evals=["*"], queues=["*"])]))

        def one(shard: int) -> None:
            mine = replace(target, shard=shard)
            values, expires_at = self.make(keys.shard(shard))
            number = self.grants.next_issue(mine, own)
            sealed = seal(mine, values, issue=number, expires_at=expires_at, recipients=self.recipients, key=self.key)
            self.grants.put(mine, sealed, issue=number, forget_at=expires_at + GRANT_GRACE)

        with ThreadPoolExecutor(MAKERS, thread_name_prefix="mst-sessions") as pool:
            for _ in pool.map(one, shards):
                pass
        self._made_at = now

    def tend(self, target: GrantTarget, keys: DispatchKeys, shards: Iterable[int]) -> None:
        """Make them again when half their life is over, or none were made here yet.

        A token service that fails is asked again at the next look.

        Raises:
            BrokerError: see `issue`.
        """
        if self._made_at is not None and datetime.now(UTC) - self._made_at < self.life / 2:
            return
        try:
            self.issue(target, keys, shards)
        except StoreError as error:
            if str(error) != self._trouble:
                self._trouble = str(error)
                log.warning("store_sessions", reason=str(error)[:300])

    def drop(self, target: GrantTarget, shards: Iterable[int]) -> None:
        """Forget what was sealed for these shards.

        Raises:
            BrokerError: no answer; it expires by itself.
        """
        for shard in shards:
            self.grants.drop(replace(target, shard=shard))


class SessionStore:
    """A worker's side: the store as one shard may use it, with the newest credentials that were sealed for it.

    Every method is that of `Store`; `StoreExpired` when the credentials are at their end and there are no newer ones.
    """

    def __init__(
        self,
        grants: GrantSlots,
        target: GrantTarget,
        *,
        verifier: Verifier,
        fleet_key: Opener,
        connect: Callable[[Values], Store],
    ) -> None:
        """Open the newest credentials.

        Raises:
            RefusedError: there are none with a good signature, or they are not for this fleet.
            BrokerError: no answer.
        """
        self._grants = grants
        self._target = target
        self._verifier = verifier
        self._fleet_key = fleet_key
        self._connect = connect
        self._lock = threading.Lock()
        self._issue = 0
        self._renew_at = self._ends_at = datetime.min.replace(tzinfo=UTC)
        self._store: Store | None = None
        self._renew()
        if self._store is None:
            raise StoreExpired(f"no credentials for the store, with a good signature, are in {target.slot}")

    def _renew(self) -> None:
        now = datetime.now(UTC)
        self._renew_at = now + timedelta(seconds=ASK_EVERY_S)
        found = self._grants.newest(self._target, self._verifier)
        if found is None or found[0].issue <= self._issue:
            return
        opened = open_grant(*found, self._fleet_key, now=now)
        self._store = self._connect(opened.values)
        self._issue, self._ends_at = opened.issue, opened.expires_at
        self._renew_at = now + max((opened.expires_at - now) / 2, timedelta(seconds=ASK_EVERY_S))

    def _now(self) -> Store:
        """The store with credentials that are good, as far as this machine's clock knows."""
        with self._lock:
            if datetime.now(UTC) >= self._renew_at:
                # a broker that is away is asked later: the credentials still have half their life
                with suppress(BrokerError):
                    self._renew()
            assert self._store is not None, "the first credentials are opened before anything else"
            return self._store

    def _call(self, action: Callable[[Store], T]) -> T:
        store = self._now()
        try:
            return action(store)
        except StoreDenied as error:
            if datetime.now(UTC) < self._ends_at and "xpired" not in str(error):
                raise
            with self._lock, suppress(BrokerError):
                self._renew()
            newer = self._store
            if newer is None or newer is store:
                raise StoreExpired(
                    f"the shard's credentials for {store.uri} expired, and no coordinator made new ones"
                ) from error
            return action(newer)

    @property
    def uri(self) -> str:
        """See `Store.uri`."""
        return self._now().uri

    def get(self, key: str, *, max_bytes: int = GET_MAX_BYTES) -> bytes:
        """See `Store.get`."""
        return self._call(lambda store: store.get(key, max_bytes=max_bytes))

    def get_to(self, key: str, path: Path) -> Digested:
        """See `Store.get_to`."""
        return self._call(lambda store: store.get_to(key, path))

    def get_range(self, key: str, start: int, length: int) -> bytes | memoryview:
        """See `Store.get_range`."""
        return self._call(lambda store: store.get_range(key, start, length))

    def put(self, key: str, data: bytes | memoryview | Path, *, sha256: str | None = None) -> None:
        """See `Store.put`."""
        self._call(lambda store: store.put(key, data, sha256=sha256))

    def put_if_absent(self, key: str, data: bytes) -> None:
        """See `Store.put_if_absent`."""
        self._call(lambda store: store.put_if_absent(key, data))

    def replace_if_match(self, key: str, data: bytes, version: str) -> None:
        """See `Store.replace_if_match`."""
        self._call(lambda store: store.replace_if_match(key, data, version))

    def head(self, key: str) -> ObjectInfo | None:
        """See `Store.head`."""
        return self._call(lambda store: store.head(key))

    def list(self, prefix: str) -> Iterator[ObjectInfo]:
        """See `Store.list`; a shard's listing is short, and is read whole."""
        found: Sequence[ObjectInfo] = self._call(lambda store: [*store.list(prefix)])
        return iter(found)

    def list_folder(self, prefix: str) -> Folder:
        """See `Store.list_folder`."""
        return self._call(lambda store: store.list_folder(prefix))

    def delete(self, key: str) -> None:
        """See `Store.delete`."""
        self._call(lambda store: store.delete(key))
