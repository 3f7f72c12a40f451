"""Sealed secrets of a dispatch: made by the coordinator, readable by the fleet alone, kept in a Redis slot with a TTL.

Sealing again (a new key, a new token) adds a record with a higher issue number; envelopes stay as they are.
"""

from __future__ import annotations

import base64
import binascii
import secrets
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from mst.errors import MstError, RefusedError, UsageError
from mst.fleet.connect import RedisClient, broker_errors
from mst.fleet.extras import need
from mst.fleet.keys import Opener, SigningKey, check_recipients
from mst.fleet.signing import CLOCK_TOLERANCE, Verifier, sign
from mst.model.base import digest_bytes
from mst.model.fleet import Grant, GrantSecrets, SealedGrant, grant_slot, scope_name
from mst.model.keys import RunId
from mst.model.shard import Work

SECRETS_MAX_BYTES = 128 * 1024
SLOT_MAX_ISSUES = 8
"""Records a reader looks at; a slot with more was filled by somebody else."""
KEPT_ISSUES = 3
GRANT_GRACE = timedelta(hours=1)
"""A grant outlives its dispatch's deadline by this much, then Redis forgets it."""


@dataclass(frozen=True)
class GrantTarget:
    """What a grant is bound to."""

    run_id: RunId
    dispatch: str
    work: Work
    eval_name: str
    shard: int | None = None

    @property
    def slot(self) -> str:
        """`grant:<run>.<dispatch>.<work>`, with `.<shard>` behind it for what only one shard may use."""
        slot = grant_slot(self.run_id, self.dispatch, self.work)
        return slot if self.shard is None else f"{slot}.{self.shard}"

    @property
    def scope(self) -> str:
        """`<run>.<dispatch>.<work>`."""
        return scope_name(self.run_id, self.dispatch, self.work)


@dataclass(frozen=True)
class OpenedGrant:
    """The secrets of a dispatch, in clear, in this process only."""

    issue: int
    expires_at: datetime
    values: Mapping[str, str] = field(repr=False)
    refresh_key: bytes = field(repr=False)
    expires: Mapping[str, datetime] = field(default_factory=dict)


def seal(
    target: GrantTarget,
    values: Mapping[str, str],
    *,
    issue: int,
    expires_at: datetime,
    recipients: tuple[str, ...],
    key: SigningKey,
    refresh_key: bytes | None = None,
    expires: Mapping[str, datetime] | None = None,
) -> SealedGrant:
    """Seal secrets to a fleet.

    Args:
        target: what the secrets may be used for; bound inside the seal and in the signed record.
        values: the secrets by name, only those that the work declares.
        issue: 1, or one more than the highest that is in the slot.
        expires_at: no worker opens it later.
        recipients: age public keys: the fleet's, a recovery key, the next key while one is being changed.
        key: the coordinator's signing key.
        refresh_key: with which workers ask for renewed tokens; a random one when nobody will answer.
        expires: when single values expire.

    Raises:
        UsageError: a bad recipient, or over 128 KiB of secrets.
    """
    plaintext = GrantSecrets(
        run_id=target.run_id,
        dispatch=target.dispatch,
        work=target.work,
        shard=target.shard,
        issue=issue,
        expires_at=expires_at,
        refresh_key=base64.b64encode(refresh_key or secrets.token_bytes(32)).decode(),
        values=dict(values),
        expires={name: moment for name, moment in (expires or {}).items() if name in values},
    ).to_json()
    if len(plaintext) > SECRETS_MAX_BYTES:
        raise UsageError(f"--secrets-file: {len(plaintext)} bytes of secrets, {SECRETS_MAX_BYTES} can be sent")
    blob: bytes = need("pyrage").encrypt(plaintext, check_recipients(recipients, "fleet recipients"))
    record = Grant(
        run_id=target.run_id,
        dispatch=target.dispatch,
        work=target.work,
        shard=target.shard,
        eval_name=target.eval_name,
        issue=issue,
        expires_at=expires_at,
        sha256=digest_bytes(blob),
        key_id=key.key_id,
    )
    return SealedGrant(record=sign(record, key), blob=base64.b64encode(blob).decode())


def verify(sealed: SealedGrant, target: GrantTarget, verifier: Verifier) -> tuple[Grant, bytes]:
    """The signed record and the blob that it vouches for.

    Raises:
        RefusedError: a bad signature, another dispatch's grant, or a blob with another digest.
    """
    grant = verifier.grant(sealed.record)
    made_for = GrantTarget(grant.run_id, grant.dispatch, grant.work, grant.eval_name, grant.shard)
    if made_for != target:
        raise RefusedError(f"the grant in {target.slot} was made for another dispatch")
    try:
        blob = base64.b64decode(sealed.blob, validate=True)
    except binascii.Error as error:
        raise RefusedError(f"the grant in {target.slot} is not base64") from error
    if digest_bytes(blob) != grant.sha256:
        raise RefusedError(f"the sealed secrets in {target.slot} are not those that were signed")
    return grant, blob


def open_grant(grant: Grant, blob: bytes, fleet_key: Opener, *, now: datetime) -> OpenedGrant:
    """Open verified secrets and check what they say about themselves.

    Raises:
        RefusedError: not sealed to this fleet, expired (with five minutes of tolerance), or bound to something else.
    """
    plaintext = fleet_key.decrypt(blob)
    try:
        inside = GrantSecrets.from_json(plaintext, "sealed secrets")
    except MstError as error:
        # Neither quoted nor chained: what a parser shows of this is secret.
        raise RefusedError(f"the sealed secrets cannot be read ({error.code})") from None
    bound = (inside.run_id, inside.dispatch, inside.work, inside.shard, inside.issue)
    if bound != (grant.run_id, grant.dispatch, grant.work, grant.shard, grant.issue):
        raise RefusedError("the sealed secrets belong to another grant")
    if now - min(inside.expires_at, grant.expires_at) > CLOCK_TOLERANCE:
        raise RefusedError(f"the grant expired at {grant.expires_at.isoformat()}")
    return OpenedGrant(
        issue=inside.issue,
        expires_at=inside.expires_at,
        values=inside.values,
        refresh_key=base64.b64decode(inside.refresh_key),
        expires=inside.expires,
    )


class GrantSlots:
    """Grants in Redis. A slot is a hash from issue number to sealed grant; the newest few are kept."""

    def __init__(self, client: RedisClient, prefix: str) -> None:
        self._client = client
        self._prefix = prefix

    def put(self, target: GrantTarget, sealed: SealedGrant, *, issue: int, forget_at: datetime) -> None:
        """Store a grant. Its TTL never ends before `forget_at`; issues older than the last three go.

        Raises:
            BrokerError: Redis did not take it.
        """
        name = self._prefix + target.slot
        with broker_errors("storing the grant"):
            pipe = self._client.pipeline(transaction=True)
            pipe.hset(name, str(issue), sealed.to_json().decode())
            old = [str(number) for number in range(max(1, issue - SLOT_MAX_ISSUES), issue - KEPT_ISSUES + 1)]
            if old:
                pipe.hdel(name, *old)
            pipe.pexpireat(name, int(forget_at.timestamp() * 1000))
            pipe.execute()

    def newest(self, target: GrantTarget, verifier: Verifier) -> tuple[Grant, bytes] | None:
        """The grant of the highest issue whose signature, target and digest are good; None when there is none.

        Records that fail are passed over: somebody who may only write to Redis can't put one in front.

        Raises:
            BrokerError: Redis did not answer.
        """
        good = []
        for _, text in self._records(target):
            try:
                good.append(verify(SealedGrant.from_json(text, target.slot), target, verifier))
            except MstError:
                continue
        return max(good, key=lambda one: one[0].issue, default=None)

    def next_issue(self, target: GrantTarget, verifier: Verifier) -> int:
        """The issue number for sealing again."""
        found = self.newest(target, verifier)
        return 1 if found is None else found[0].issue + 1

    def drop(self, target: GrantTarget) -> None:
        """Forget a dispatch's secrets; done when it closes. Idempotent."""
        with broker_errors("deleting the grant"):
            self._client.delete(self._prefix + target.slot)

    def _records(self, target: GrantTarget) -> list[tuple[str, str]]:
        name = self._prefix + target.slot
        with broker_errors("reading the grant"):
            if self._client.hlen(name) > SLOT_MAX_ISSUES:
                return []
            return list(self._client.hgetall(name).items())
