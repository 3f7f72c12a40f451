"""Signing what is sent and verifying what arrives: listed keys only, and only for what their entry allows."""

from __future__ import annotations

import base64
import binascii
from datetime import datetime, timedelta
from typing import Literal, TypeVar

from mst.errors import InvariantError, MstError, RefusedError
from mst.fleet.extras import need
from mst.fleet.keys import SigningKey
from mst.model.base import canonical
from mst.model.fleet import (
    ENVELOPE_MAX_BYTES,
    Envelope,
    Grant,
    Signed,
    SignerEntry,
    TrustedSigners,
)
from mst.model.keys import segment

RecordT = TypeVar("RecordT", Envelope, Grant)
RefusalKind = Literal["signer", "allowed", "signature", "queue", "deadline", "place", "version", "form"]

CLOCK_TOLERANCE = timedelta(minutes=5)
"""How far a worker's clock may be off before it refuses a shard by its deadline."""


class Refusal(RefusedError):
    """A message or grant is refused; the kind says which check failed."""

    def __init__(self, kind: RefusalKind, text: str) -> None:
        super().__init__(text)
        self.kind = kind


def sign(document: Envelope | Grant, key: SigningKey) -> Signed:
    """Sign a document; signing the same document again gives the same bytes.

    Raises:
        InvariantError: the document names another key, or an envelope is over 4 KiB.
    """
    if document.key_id != key.key_id:
        raise InvariantError(f"a {document.kind} for key {document.key_id} is being signed with {key.key_id}")
    payload = document.to_dict()
    signature = base64.b64encode(key.sign(canonical(payload))).decode()
    signed = Signed(payload=payload, key_id=key.key_id, signature=signature)
    size = len(signed.to_json())
    if isinstance(document, Envelope) and size > ENVELOPE_MAX_BYTES:
        raise InvariantError(f"envelope of shard {document.shard} has {size} bytes; {ENVELOPE_MAX_BYTES} are allowed")
    return signed


class Verifier:
    """Checks signatures against a list of trusted signers. Thread-safe: it is never changed."""

    def __init__(self, trusted: TrustedSigners) -> None:
        self._entries = {entry.key_id: entry for entry in trusted.signers}

    def envelope(self, signed: Signed, *, queues: frozenset[str], now: datetime) -> Envelope:
        """The envelope, once its signature, key, eval, queue and deadline are found good.

        Args:
            signed: what the message held.
            queues: the queues that this worker consumes.
            now: this worker's clock; the deadline is given five minutes of tolerance.

        Raises:
            Refusal: says which check failed.
        """
        if len(signed.to_json()) > ENVELOPE_MAX_BYTES:
            raise Refusal("form", f"envelope is over {ENVELOPE_MAX_BYTES} bytes")
        entry = self._check(signed, "envelope")
        envelope = _read(Envelope, signed)
        if not allows(entry.evals, envelope.eval_name):
            raise Refusal("allowed", f"key {entry.key_id} may not ask for eval {envelope.eval_name!r}")
        if not allows(entry.queues, envelope.queue):
            raise Refusal("allowed", f"key {entry.key_id} may not use queue {envelope.queue!r}")
        if envelope.queue not in queues:
            raise Refusal(
                "queue", f"envelope was signed for queue {envelope.queue!r}, which this worker does not serve"
            )
        if now - envelope.deadline > CLOCK_TOLERANCE:
            raise Refusal("deadline", f"deadline of {envelope.ref} passed at {envelope.deadline.isoformat()}")
        return envelope

    def grant(self, signed: Signed) -> Grant:
        """The grant's record, once its signature, key and eval are found good.

        Raises:
            Refusal: says which check failed.
        """
        entry = self._check(signed, "grant")
        grant = _read(Grant, signed)
        if not allows(entry.evals, grant.eval_name):
            raise Refusal("allowed", f"key {entry.key_id} may not grant secrets to eval {grant.eval_name!r}")
        return grant

    def _check(self, signed: Signed, what: str) -> SignerEntry:
        entry = self._entries.get(signed.key_id)
        if entry is None:
            raise Refusal("signer", f"{what} was signed with key {signed.key_id}, which is not a trusted signer here")
        exceptions = need("cryptography.exceptions")
        ed25519 = need("cryptography.hazmat.primitives.asymmetric.ed25519")
        try:
            public = ed25519.Ed25519PublicKey.from_public_bytes(base64.b64decode(entry.public_key, validate=True))
            public.verify(base64.b64decode(signed.signature, validate=True), canonical(signed.payload))
        except (exceptions.InvalidSignature, binascii.Error, ValueError) as error:
            # ValueError covers numbers that have no canonical form.
            raise Refusal("signature", f"{what} has a bad signature (key {signed.key_id})") from error
        return entry


def allows(patterns: list[str], name: str) -> bool:
    """Whether a name is listed: itself, by a prefix that ends with `*`, or by `*` alone."""
    return any(name.startswith(one[:-1]) if one.endswith("*") else name == one for one in patterns)


def check_places(envelope: Envelope, store_uri: str) -> None:
    """Refuse an envelope that points outside its own dispatch's folder in this worker's store.

    An envelope's URIs carry no query: endpoint and region are the worker's own, or a forged endpoint could be
    given its credentials.

    Args:
        envelope: a verified one.
        store_uri: the store that this worker is configured for; its query is no part of the comparison.

    Raises:
        Refusal: the bundle or the results lie elsewhere.
    """
    root = store_uri.split("?", 1)[0].rstrip("/")
    allowed = f"{root}/{segment(envelope.eval_name)}/dispatches/{envelope.run_id}/{envelope.dispatch}/"
    for what, uri in (("bundle", envelope.bundle_uri), ("results", envelope.results_uri)):
        if not uri.startswith(allowed) or "?" in uri or "#" in uri or ".." in uri.split("/"):
            raise Refusal("place", f"the {what} of {envelope.ref} must lie under {allowed}")


def _read(kind: type[RecordT], signed: Signed) -> RecordT:
    try:
        document = kind.from_json(canonical(signed.payload), kind.KIND)
    except MstError as error:
        raise Refusal("form", str(error)) from error
    if document.key_id != signed.key_id:
        raise Refusal("signature", f"{kind.KIND} names key {document.key_id} but was signed with {signed.key_id}")
    return document
