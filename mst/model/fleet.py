"""What the fleet stores and sends: envelopes, grants, key files, and the records of a dispatch."""

from __future__ import annotations

from typing import Annotated, Any, ClassVar, Literal

from pydantic import AwareDatetime, ConfigDict, Field, StringConstraints

from mst.model.base import Document, Model
from mst.model.keys import RunId
from mst.model.sealed import Sealed, Sha256
from mst.model.shard import Work

ENVELOPE_FORMAT = "mst.envelope/v1"
GRANT_FORMAT = "mst.grant/v1"
DISPATCH_FORMAT = "mst.dispatch/v1"
KEYS_FORMAT = "mst.keys/v1"

ENVELOPE_MAX_BYTES = 4096
"""A signed envelope may not be larger; Redis holds every message about four times over."""

DEFAULT_LEASE_TTL_S = 120.0
EMBEDDED_LEASE_TTL_S = 15.0
DEFAULT_ATTEMPTS = 10
DEFAULT_IDLE_ATTEMPTS = 3

DispatchId = Annotated[str, StringConstraints(pattern=r"^d[1-9]\d*$")]
KeyId = Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{16}$")]
AttemptId = Annotated[str, StringConstraints(pattern=r"^[1-9]\d*-[0-9a-f]{16}$")]
Base64 = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9+/]*={0,2}$")]


def scope_name(run_id: str, dispatch: str, work: str) -> str:
    """What one dispatch is called in Redis keys, grant slots and task IDs: `<run>.<dispatch>.<work>`."""
    return f"{run_id}.{dispatch}.{work}"


def grant_slot(run_id: str, dispatch: str, work: str) -> str:
    """The name under which a dispatch's grant is kept."""
    return f"grant:{scope_name(run_id, dispatch, work)}"


class ShardRef(Model):
    """One shard of one dispatch: what every ledger call is about."""

    run_id: RunId
    dispatch: DispatchId
    work: Work
    shard: int = Field(ge=0)

    @property
    def scope(self) -> str:
        """`<run>.<dispatch>.<work>`."""
        return scope_name(self.run_id, self.dispatch, self.work)

    def __str__(self) -> str:
        return f"{self.scope}.{self.shard}"


class Signed(Model):
    """A document with its signature.

    The payload is kept as it was sent: a newer minor version may carry fields that this one does not know, and
    they are signed too. Read it with `mst.fleet.signing` only, which verifies before it parses.
    """

    payload: dict[str, Any]
    key_id: KeyId
    signature: Base64
    """Ed25519 over the RFC 8785 bytes of `payload`, 64 bytes in base64."""


class ShardLimits(Model):
    """What a shard may use. Values in Redis may lower these, never raise them."""

    attempts: int = Field(DEFAULT_ATTEMPTS, ge=1)
    """Attempts that may be lost in all."""
    idle_attempts: int = Field(DEFAULT_IDLE_ATTEMPTS, ge=1)
    """Attempts that may be lost in a row without a new finished unit."""
    lease_ttl_s: float = Field(DEFAULT_LEASE_TTL_S, ge=0.2, le=3600)
    """Renewal, janitor and resend waits are fractions of it."""
    cost_usd: float | None = None
    tokens: int | None = None


class Envelope(Document):
    """Asks for one shard. Immutable for the life of a dispatch, and names no attempt, so that it can be sent again.

    Holds references and digests only: no case text and no secret.
    """

    FORMAT: ClassVar[str] = ENVELOPE_FORMAT
    KIND: ClassVar[str] = "envelope"
    format: Literal["mst.envelope/v1"] = "mst.envelope/v1"
    kind: Literal["envelope"] = "envelope"

    run_id: RunId
    dispatch: DispatchId
    work: Work
    shard: int = Field(ge=0)
    count: int = Field(ge=1)
    """Shards of the run's plan; empty ones are not sent."""
    eval_name: str
    """A signer may be allowed some evals only."""
    queue: str
    """The queue that it was signed for; a worker of another queue refuses it."""
    bundle_uri: str
    bundle_sha256: Sha256
    """Of the archive: what is fetched must have it."""
    bundle_digest: Sha256
    """Of the bundle's content: what its units name."""
    results_uri: str
    """The shard's own prefix in the store: attempts and the manifest go below it."""
    limits: ShardLimits
    deadline: AwareDatetime
    """Covers waiting and running."""
    mst: str
    plugins: dict[str, str] = {}
    grant_slot: str | None = None
    """Where the sealed secrets are; none when the work declares no secret."""
    store_session: bool = False
    """Whether credentials for the store, for this shard alone, are sealed in a slot of the shard's own."""
    key_id: KeyId

    @property
    def ref(self) -> ShardRef:
        """The shard that it asks for."""
        return ShardRef(run_id=self.run_id, dispatch=self.dispatch, work=self.work, shard=self.shard)


class Hint(Model):
    """Unsigned help: spares work that is known to be useless, and is never a reason to do any."""

    attempt: int = Field(ge=1)
    """The attempt that this message is meant to start; an older one than the ledger's is dropped."""


class Message(Document):
    """The whole argument of the one Celery task."""

    FORMAT: ClassVar[str] = ENVELOPE_FORMAT
    KIND: ClassVar[str] = "message"
    format: Literal["mst.envelope/v1"] = "mst.envelope/v1"
    kind: Literal["message"] = "message"

    envelope: Signed
    hint: Hint


class Grant(Document):
    """The record of a sealed blob of secrets. Signed on its own, so that a blob can't be swapped."""

    FORMAT: ClassVar[str] = GRANT_FORMAT
    KIND: ClassVar[str] = "grant"
    format: Literal["mst.grant/v1"] = "mst.grant/v1"
    kind: Literal["grant"] = "grant"

    run_id: RunId
    dispatch: DispatchId
    work: Work
    shard: int | None = None
    """Of one shard alone: credentials for the store."""
    eval_name: str
    issue: int = Field(ge=1)
    expires_at: AwareDatetime
    sha256: Sha256
    key_id: KeyId


class SealedGrant(Document):
    """What lies in the slot: the signed record and the age blob that it vouches for."""

    FORMAT: ClassVar[str] = GRANT_FORMAT
    KIND: ClassVar[str] = "sealed-grant"
    format: Literal["mst.grant/v1"] = "mst.grant/v1"
    kind: Literal["sealed-grant"] = "sealed-grant"

    record: Signed
    blob: Base64


class GrantSecrets(Document):
    """The plaintext inside the blob. Never written, logged or shown; what it is bound to is checked after opening."""

    model_config = ConfigDict(hide_input_in_errors=True)

    FORMAT: ClassVar[str] = GRANT_FORMAT
    KIND: ClassVar[str] = "secrets"
    format: Literal["mst.grant/v1"] = "mst.grant/v1"
    kind: Literal["secrets"] = "secrets"

    run_id: RunId
    dispatch: DispatchId
    work: Work
    shard: int | None = None
    issue: int
    expires_at: AwareDatetime
    refresh_key: str = Field(repr=False)
    values: dict[str, str] = Field(repr=False)
    expires: dict[str, AwareDatetime] = {}
    """When single values expire, those that do."""


class SigningKeyFile(Document):
    """A private Ed25519 key as it lies on disk (0600)."""

    model_config = ConfigDict(hide_input_in_errors=True)

    FORMAT: ClassVar[str] = KEYS_FORMAT
    KIND: ClassVar[str] = "signing-key"
    format: Literal["mst.keys/v1"] = "mst.keys/v1"
    kind: Literal["signing-key"] = "signing-key"

    key_id: KeyId
    public_key: Base64
    private_key: Base64 = Field(repr=False)
    created: AwareDatetime


class SignerEntry(Model):
    """A key that workers accept, and what it may ask for.

    A pattern is a name, a prefix that ends with `*`, or `*` alone. Empty lists allow nothing.
    """

    key_id: KeyId
    public_key: Base64
    evals: list[str]
    queues: list[str]
    comment: str | None = None


class TrustedSigners(Document):
    """The file of signers that a worker host trusts."""

    FORMAT: ClassVar[str] = KEYS_FORMAT
    KIND: ClassVar[str] = "trusted-signers"
    format: Literal["mst.keys/v1"] = "mst.keys/v1"
    kind: Literal["trusted-signers"] = "trusted-signers"

    signers: list[SignerEntry]


class ShardPlan(Model):
    """One shard of a dispatch's plan."""

    shard: int = Field(ge=0)
    case_ids: list[str]
    units: int = Field(ge=1)
    bundle_sha256: Sha256
    bundle_digest: Sha256
    bundle_bytes: int = Field(ge=0)


class DispatchRecord(Sealed):
    """`dispatch.json`: created once, before any upload or message.

    A coordinator that knows only the store's URI rebuilds everything from it.
    """

    FORMAT: ClassVar[str] = DISPATCH_FORMAT
    KIND: ClassVar[str] = "dispatch"
    format: Literal["mst.dispatch/v1"] = "mst.dispatch/v1"
    kind: Literal["dispatch"] = "dispatch"

    run_id: RunId
    dispatch: DispatchId
    work: Work
    eval_name: str
    created: AwareDatetime
    deadline: AwareDatetime
    count: int = Field(ge=1)
    """Shards of the plan, empty ones included."""
    shards: list[ShardPlan]
    """Those that are sent."""
    identities: dict[str, str] = {}
    """What the work means, by name (eval config, source run, each grader): a unit with other identities is not taken
    over."""
    limits: ShardLimits
    queue: str
    broker: str
    """Where the messages went, without any password."""
    embedded: bool = False
    """The broker ended with its coordinator: nobody can follow this dispatch, only close it."""
    mst: str
    plugins: dict[str, str] = {}
    secrets: list[str] = []
    """Names of the secrets that the work declares; with any, a rebuilt dispatch needs the secrets file again."""
    grant_slot: str | None = None
    budgeted: bool = False
    """Whether the work has a budget: what was spent is then written again after the broker lost it."""
    store_sessions: bool = False
    """Whether each shard gets credentials for the store of its own."""
    key_id: KeyId
    recipients: list[str] = []
    """Public age recipients that the grant is sealed to."""
    plan_sha256: Sha256 | None = None
    """Of `plan.json` beside it; records of earlier versions do not say."""

    @property
    def scope(self) -> str:
        """`<run>.<dispatch>.<work>`."""
        return scope_name(self.run_id, self.dispatch, self.work)


CloseReason = Literal["done", "cancelled", "gave-up", "resumed", "distrusted"]


class ClosedShard(Model):
    """How one shard ended."""

    shard: int = Field(ge=0)
    manifest_sha256: Sha256
    complete: bool
    adopted: bool
    """The closing coordinator made the manifest, since no worker had."""
    reason: str | None = None


class Closed(Sealed):
    """`closed.json`: no worker starts after it, and the next dispatch may be planned."""

    FORMAT: ClassVar[str] = DISPATCH_FORMAT
    KIND: ClassVar[str] = "closed"
    format: Literal["mst.dispatch/v1"] = "mst.dispatch/v1"
    kind: Literal["closed"] = "closed"

    run_id: RunId
    dispatch: DispatchId
    work: Work
    reason: CloseReason
    closed_at: AwareDatetime
    machine: str
    shards: list[ClosedShard]
