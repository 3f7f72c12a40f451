"""Work that workers refuse, told to the coordinator that sent it: otherwise only their logs know, until the deadline.

Whoever may write to Redis can write a refusal, as they can cancel or delay work. What counts is a refusal of just the
envelope that the coordinator sent, by every worker that serves its queue, while none of them has taken a shard.
"""

from __future__ import annotations

import socket
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from pydantic import ValidationError

from mst.errors import BrokerError, MstError
from mst.fleet.connect import RedisClient, broker_errors
from mst.fleet.ledger_keys import DEFAULT_PREFIX, Keys
from mst.fleet.ledger_states import HELD, Entry, State
from mst.fleet.signing import Refusal, RefusalKind
from mst.model.base import Model, canonical, digest
from mst.model.fleet import Envelope, Signed

KEPT_MAX = 200
KEPT_S = 3600
TEXT_MAX = 500
SEND_AGAIN_S = 2.0
SEND_AGAIN_MAX_S = 30.0
FIXES: Mapping[RefusalKind, str] = {
    "signer": "add the coordinator's entry (signers.json beside its signing key) to their MST_TRUSTED_SIGNERS_FILE",
    "allowed": "give the coordinator's entry in their MST_TRUSTED_SIGNERS_FILE this eval and queue",
    "deadline": "set the clocks of workers and coordinator, or give a later deadline (--runner-option deadline_h)",
    "place": "give workers and coordinator the same MST_STORE",
    "version": "start workers of the coordinator's version of mst",
}
"""What to do. Other kinds are of messages that were forged or damaged on the way: the true one is sent again."""


class Refused(Model):
    """One worker's refusal of one envelope, as it stands in Redis. Nothing in it is secret or verified."""

    worker: str
    machine: str
    kind: RefusalKind
    reason: str
    shard: int
    sha256: str
    """Of the envelope's payload."""

    @property
    def line(self) -> str:
        """For people."""
        where = self.worker if self.worker.startswith(self.machine) else f"{self.worker} on {self.machine}"
        return f"worker {where} refuses this work: {self.reason}"


def payload_digest(envelope: Envelope) -> str:
    """By which a refusal names an envelope."""
    return digest(envelope.to_dict())


class RefusalBook:
    """Refusals in Redis, a short stream for each dispatch. Raises `BrokerError` when it does not answer."""

    def __init__(self, client: RedisClient, prefix: str = DEFAULT_PREFIX) -> None:
        self._client = client
        self._keys = Keys(prefix)

    def note(self, signed: Signed, *, worker: str, error: Refusal) -> None:
        """For a worker: say that an envelope was refused. Silent when it names no dispatch that Redis knows."""
        if error.kind not in FIXES:
            return
        try:
            envelope = Envelope.from_json(canonical(signed.payload), "envelope")
        except (MstError, ValueError):
            return
        scope = envelope.ref.scope
        refused = Refused(
            worker=worker,
            machine=socket.gethostname(),
            kind=error.kind,
            reason=str(error)[:TEXT_MAX],
            shard=envelope.shard,
            sha256=payload_digest(envelope),
        )
        name = self._keys.refusals(scope)
        with broker_errors(f"refusing {envelope.ref}"):
            if not self._client.exists(self._keys.head(scope)):
                return
            pipe = self._client.pipeline(transaction=True)
            pipe.xadd(name, {"refused": refused.to_json().decode()}, maxlen=KEPT_MAX, approximate=True)
            pipe.expire(name, KEPT_S)
            pipe.execute()

    def after(self, scope: str, place: str) -> tuple[str, list[Refused]]:
        """Refusals after a place of the stream, oldest first, and the place after them."""
        with broker_errors(f"reading refusals of {scope}"):
            found = self._client.xread({self._keys.refusals(scope): place}, count=KEPT_MAX)
        lines = [line for _, stream in found or [] for line in stream]
        return (str(lines[-1][0]) if lines else place), [one for _, fields in lines if (one := _read(fields))]


def _read(fields: Mapping[str, Any]) -> Refused | None:
    try:
        return Refused.model_validate_json(fields.get("refused", ""))
    except ValidationError:
        return None


@dataclass
class RefusalWatch:
    """The coordinator's look at one dispatch's refusals.

    Attributes:
        digest_of: the digest of the envelope that was sent for a shard; None for a shard that was not sent.
        workers: names of those that serve the queue now.
        send_again: sends a shard's message once more, since the one that was refused is gone.
        say: told once of each worker that refuses.
        queue: for the text.
        old: places of the stream up to here are of an earlier coordinator; what they refused is tried again.
    """

    book: RefusalBook
    scope: str
    digest_of: Callable[[int], str | None]
    workers: Callable[[], Sequence[str]]
    send_again: Callable[[int], None]
    say: Callable[[str], None]
    queue: str
    old: bool = False
    _place: str = "0-0"
    _by: dict[str, Refused] = field(default_factory=dict)
    _again: set[int] = field(default_factory=set)
    _pause_s: float = SEND_AGAIN_S
    _next_at: float = 0.0

    def look(self, entries: Mapping[int, Entry]) -> str | None:
        """Why nobody will ever take a shard of this dispatch and what to do; None as long as somebody may.

        Raises:
            BrokerError: no answer.
        """
        self._hear()
        if not (self._again or self._by):
            return None
        if not any(_is_taken(entry) for entry in entries.values()):
            serving = set(self.workers())
            if serving and serving <= set(self._by):
                return self._text(serving)
        self._let_others_try(entries)
        return None

    def _hear(self) -> None:
        self._place, found = self.book.after(self.scope, self._place)
        for one in found:
            if one.sha256 != self.digest_of(one.shard):
                continue
            self._again.add(one.shard)
            if not self.old and one.worker not in self._by:
                self.say(one.line)
            if not self.old:
                self._by[one.worker] = one
        self.old = False

    def _let_others_try(self, entries: Mapping[int, Entry]) -> None:
        now = time.monotonic()
        if now < self._next_at or not self._again:
            return
        self._next_at, self._pause_s = now + self._pause_s, min(2 * self._pause_s, SEND_AGAIN_MAX_S)
        for shard in sorted(self._again):
            entry = entries.get(shard)
            if entry is not None and entry.state is State.QUEUED:
                with suppress(BrokerError):
                    self.send_again(shard)
        self._again.clear()

    def _text(self, serving: set[str]) -> str:
        refused = [self._by[name] for name in sorted(serving)]
        first = refused[0]
        others = f" (and {len(refused) - 1} more alike)" if len(refused) > 1 else ""
        return f"every worker of the queue {self.queue} refuses this work. {first.line}{others}; {FIXES[first.kind]}"


def _is_taken(entry: Entry) -> bool:
    return entry.n > 0 or entry.state in HELD or entry.state is State.COMMITTED
