"""Credentials that expire: a worker asks in time, a coordinator that is awake answers; otherwise the shard waits.

A request names an attempt and a public key made for it, under a MAC with the grant's refresh key, so that only who
could open the grant can ask. The answer is a grant sealed to that key alone, signed as every grant. A shard that gets
no answer in time stops at a unit's end in `waiting_token`; a new issue of the dispatch's grant lets it go on.
"""

from __future__ import annotations

import hashlib
import hmac
import secrets
import threading
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from types import TracebackType
from typing import Self

import structlog
from pydantic import AwareDatetime, ValidationError

from mst.errors import BrokerError, RefusedError
from mst.fleet.connect import RedisClient, broker_errors
from mst.fleet.grants import GrantTarget, OpenedGrant, open_grant, seal, verify
from mst.fleet.keys import FleetKey, SigningKey
from mst.fleet.ledger_keys import DEFAULT_PREFIX, Keys
from mst.fleet.signing import CLOCK_TOLERANCE, Verifier
from mst.model.base import Model, canonical
from mst.model.fleet import AttemptId, SealedGrant

REQUESTS_MAX = 1000
ANSWER_TTL_S = 900
ASKED_PARTS = 8
"""A request is repeated this often in what is left of a token's life."""
LOOK_S = 0.5
REST_MAX_S = 60.0
"""A shard stops at most this long before its token expires; an eighth of its life for short ones."""

log = structlog.get_logger(__name__)


class TokenRequest(Model):
    """What a worker asks with."""

    shard: int
    attempt: AttemptId
    recipient: str
    """Age public key of this attempt."""
    at: AwareDatetime
    mac: str

    @classmethod
    def made(
        cls, refresh_key: bytes, scope: str, shard: int, attempt: str, recipient: str, at: datetime
    ) -> TokenRequest:
        """A request of whoever knows the grant's refresh key."""
        mac = _mac(refresh_key, scope, shard, attempt, recipient, at)
        return cls(shard=shard, attempt=attempt, recipient=recipient, at=at, mac=mac)

    def is_from(self, refresh_key: bytes, scope: str) -> bool:
        """Whether whoever made it knows the grant's refresh key."""
        return hmac.compare_digest(
            self.mac, _mac(refresh_key, scope, self.shard, self.attempt, self.recipient, self.at)
        )


def _mac(refresh_key: bytes, scope: str, shard: int, attempt: str, recipient: str, at: datetime) -> str:
    said = {"scope": scope, "shard": shard, "attempt": attempt, "recipient": recipient, "at": at.isoformat()}
    return hmac.new(refresh_key, canonical(said), hashlib.sha256).hexdigest()


def refresh_key_of(key: SigningKey, scope: str) -> bytes:
    """The refresh key of a dispatch: any coordinator with the signing key finds it again, and nobody else can."""
    return hashlib.sha256(key.sign(b"mst refresh key of " + scope.encode())).digest()


class TokenSlots:
    """Requests and answers in Redis. Raises `BrokerError` when it does not answer."""

    def __init__(self, client: RedisClient, prefix: str = DEFAULT_PREFIX) -> None:
        self._client = client
        self._keys = Keys(prefix)

    def ask(self, scope: str, request: TokenRequest) -> None:
        """Leave a request. The stream is capped and ends by itself."""
        name = self._keys.token_requests(scope)
        with broker_errors("asking for a new token"):
            pipe = self._client.pipeline(transaction=True)
            pipe.xadd(name, {"request": request.to_json().decode()}, maxlen=REQUESTS_MAX, approximate=True)
            pipe.expire(name, ANSWER_TTL_S)
            pipe.execute()

    def requests(self, scope: str, after: str) -> list[tuple[str, TokenRequest | None]]:
        """Requests after a place, oldest first; None for what is no request."""
        with broker_errors("reading requests for tokens"):
            found = self._client.xread({self._keys.token_requests(scope): after}, count=REQUESTS_MAX)
        return [(place, _request(fields.get("request", ""))) for _, lines in found or [] for place, fields in lines]

    def put_answer(self, scope: str, attempt: str, answer: SealedGrant) -> None:
        """Leave an answer for an attempt; it ends by itself."""
        with broker_errors("answering with a token"):
            self._client.set(self._keys.token_answer(scope, attempt), answer.to_json().decode(), ex=ANSWER_TTL_S)

    def take_answer(self, scope: str, attempt: str) -> str | None:
        """The answer to an attempt, which is then gone."""
        with broker_errors("looking for a token"):
            found: str | None = self._client.getdel(self._keys.token_answer(scope, attempt))
            return found


def _request(text: str) -> TokenRequest | None:
    try:
        return TokenRequest.model_validate_json(text)
    except ValidationError:
        return None


@dataclass
class TokenKeeper:
    """Keeps one attempt's credentials fresh, in a thread of its own. Use as a context manager.

    Attributes:
        fresh: told new values, before the old ones expire.
        expired: told once, when no answer came in time: the shard should stop at a unit's end.
    """

    slots: TokenSlots
    target: GrantTarget
    shard: int
    attempt: str
    verifier: Verifier
    opened: OpenedGrant
    fresh: Callable[[Mapping[str, str]], None]
    expired: Callable[[], None]
    _ended: threading.Event = field(default_factory=threading.Event)
    _thread: threading.Thread | None = None

    def __enter__(self) -> Self:
        if self.opened.expires:
            self._thread = threading.Thread(target=self._keep, daemon=True, name=f"mst-tokens-{self.shard}")
            self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._ended.set()
        if self._thread is not None:
            self._thread.join()

    def _keep(self) -> None:
        while self.opened.expires:
            now = datetime.now(UTC)
            until = min(self.opened.expires.values())
            life_s = (until - now).total_seconds()
            # half of its life, give or take: a thousand shards must not ask at once
            if life_s > 0 and self._ended.wait(life_s * _spread()):
                return
            renewed = self._renew(until - timedelta(seconds=min(REST_MAX_S, max(life_s, 0) / 8)))
            if self._ended.is_set():
                return
            if renewed is None:
                self.expired()
                return
            self.opened = renewed
            log.info("tokens_renewed", shard=self.shard, attempt=self.attempt)
            self.fresh(renewed.values)

    def _renew(self, until: datetime) -> OpenedGrant | None:
        """Ask until an answer comes or the time is over."""
        own = FleetKey.generate()
        pause_s = max(LOOK_S, (until - datetime.now(UTC)).total_seconds() / ASKED_PARTS)
        ask_at = datetime.now(UTC)
        while datetime.now(UTC) < until and not self._ended.is_set():
            with suppress(BrokerError):
                if datetime.now(UTC) >= ask_at:
                    self._ask(own)
                    ask_at = datetime.now(UTC) + timedelta(seconds=pause_s)
                found = self._answer(own)
                if found is not None:
                    return found
            self._ended.wait(LOOK_S)
        return None

    def _ask(self, own: FleetKey) -> None:
        scope, [recipient] = self.target.scope, own.recipients
        key = self.opened.refresh_key
        self.slots.ask(scope, TokenRequest.made(key, scope, self.shard, self.attempt, recipient, datetime.now(UTC)))
        log.info("token_asked", shard=self.shard, attempt=self.attempt)

    def _answer(self, own: FleetKey) -> OpenedGrant | None:
        text = self.slots.take_answer(self.target.scope, self.attempt)
        if text is None:
            return None
        try:
            sealed = SealedGrant.from_json(text.encode(), "answer")
            found = open_grant(*verify(sealed, self.target, self.verifier), own, now=datetime.now(UTC))
        except RefusedError as error:
            log.warning("token_refused", reason=str(error)[:300])
            return None
        later = min(found.expires.values(), default=None)
        return found if later is None or later > min(self.opened.expires.values()) else None


def _spread() -> float:
    return 0.4 + secrets.randbelow(2001) / 10_000


@dataclass(frozen=True)
class Credentials:
    """What the secrets file holds now."""

    values: Mapping[str, str] = field(repr=False)
    expires: Mapping[str, datetime] = field(default_factory=dict)

    def are_good(self, now: datetime) -> bool:
        """Whether none of them has expired."""
        return all(moment > now for moment in self.expires.values())


@dataclass
class TokenDesk:
    """The coordinator's side: answers requests from the secrets file, read anew each time.

    Attributes:
        read: what the file holds now; whoever renews tokens writes it.
    """

    slots: TokenSlots
    target: GrantTarget
    key: SigningKey
    forget_at: datetime
    read: Callable[[], Credentials]
    _place: str = "0-0"

    def answer(self) -> int:
        """Answer what was asked since the last time; returns how many got one.

        Raises:
            BrokerError: no answer; ask again.
        """
        asked: dict[str, TokenRequest] = {}
        refresh_key, now = refresh_key_of(self.key, self.target.scope), datetime.now(UTC)
        for place, request in self.slots.requests(self.target.scope, self._place):
            self._place = place
            if request is None or not request.is_from(refresh_key, self.target.scope):
                log.warning("token_request_refused", scope=self.target.scope, reason="its MAC is not the grant's")
            elif abs(now - request.at) <= CLOCK_TOLERANCE:
                asked[request.attempt] = request
        if not asked:
            return 0
        found = self.read()
        if not found.are_good(now):
            return 0
        for attempt, request in asked.items():
            self.slots.put_answer(self.target.scope, attempt, self.sealed(found, (request.recipient,), issue=1))
        return len(asked)

    def sealed(self, found: Credentials, recipients: tuple[str, ...], *, issue: int) -> SealedGrant:
        """A grant of what the file holds now."""
        return seal(
            self.target,
            found.values,
            issue=issue,
            expires_at=self.forget_at,
            recipients=recipients,
            key=self.key,
            refresh_key=refresh_key_of(self.key, self.target.scope),
            expires=found.expires,
        )


__all__ = ["Credentials", "TokenDesk", "TokenKeeper", "TokenRequest", "TokenSlots", "refresh_key_of"]
