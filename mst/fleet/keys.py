"""Keys of a fleet: who may ask for work (Ed25519) and who can read its secrets (age).

A fleet has four files. Coordinators hold `signing.key` (private) and `fleet.pub`; worker hosts hold `fleet.key`
(private) and `signers.json`. The age files are the ones that the `age` program reads and writes.
"""

from __future__ import annotations

import base64
import binascii
import os
import secrets
import stat
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any, Protocol

from mst.errors import MstError, RefusedError, UsageError
from mst.fleet.extras import need
from mst.model.base import DocumentT, digest_bytes
from mst.model.fleet import SignerEntry, SigningKeyFile, TrustedSigners

SIGNING_KEY_ENV = "MST_SIGNING_KEY_FILE"
FLEET_KEY_ENV = "MST_FLEET_KEY_FILE"
TRUSTED_SIGNERS_ENV = "MST_TRUSTED_SIGNERS_FILE"

KEY_FILE_MAX_BYTES = 256 * 1024
_PRIVATE_AGE = "AGE-SECRET-KEY-"


@dataclass(frozen=True)
class SigningKey:
    """A private Ed25519 key. Its repr shows the key ID only."""

    key_id: str
    public_key: str
    """Raw 32 bytes, base64."""
    _private: Any = field(repr=False)

    def sign(self, data: bytes) -> bytes:
        """The 64-byte signature; equal data gives an equal signature."""
        signature: bytes = self._private.sign(data)
        return signature

    @classmethod
    def generate(cls) -> SigningKey:
        """A new random key."""
        return cls.from_seed(secrets.token_bytes(32))

    @classmethod
    def from_seed(cls, seed: bytes) -> SigningKey:
        """The key of 32 private bytes."""
        ed25519 = need("cryptography.hazmat.primitives.asymmetric.ed25519")
        private = ed25519.Ed25519PrivateKey.from_private_bytes(seed)
        public: bytes = private.public_key().public_bytes_raw()
        return cls(key_id=key_id_of(public), public_key=_b64(public), _private=private)

    def document(self, created: datetime) -> SigningKeyFile:
        """The key as it is stored."""
        return SigningKeyFile(
            key_id=self.key_id,
            public_key=self.public_key,
            private_key=_b64(self._private.private_bytes_raw()),
            created=created,
        )

    def entry(self, *, evals: list[str], queues: list[str], comment: str | None = None) -> SignerEntry:
        """The line that makes workers trust this key."""
        return SignerEntry(key_id=self.key_id, public_key=self.public_key, evals=evals, queues=queues, comment=comment)


class Opener(Protocol):
    """Whatever opens what is sealed to the fleet."""

    def decrypt(self, blob: bytes) -> bytes:
        """See `FleetKey.decrypt`."""
        ...


@dataclass(frozen=True)
class FleetKey:
    """Age identities that open a fleet's grants: one, or several while a key is being changed."""

    recipients: tuple[str, ...]
    """Their public halves, `age1...`."""
    _identities: tuple[Any, ...] = field(repr=False)

    @classmethod
    def generate(cls) -> FleetKey:
        """A new random identity."""
        return cls.of([need("pyrage.x25519").Identity.generate()])

    @classmethod
    def of(cls, identities: list[Any]) -> FleetKey:
        """The key of these `pyrage` identities; any of them opens."""
        return cls(tuple(str(one.to_public()) for one in identities), tuple(identities))

    def and_also(self, other: FleetKey) -> FleetKey:
        """This key and another one; either opens."""
        return FleetKey.of([*self._identities, *other._identities])

    def newest(self) -> FleetKey:
        """Only the identity that was added last."""
        return FleetKey.of([self._identities[-1]])

    def decrypt(self, blob: bytes) -> bytes:
        """Open an age blob.

        Raises:
            RefusedError: none of the identities is among its recipients, or the blob was changed.
        """
        pyrage = need("pyrage")
        try:
            plain: bytes = pyrage.decrypt(blob, list(self._identities))
        except pyrage.DecryptError as error:
            raise RefusedError(f"the sealed secrets can't be opened with this fleet key: {error}") from error
        return plain

    def file_text(self, created: datetime) -> str:
        """The private file, in the form that `age-keygen` writes."""
        lines = [f"# created: {created.isoformat()}"]
        for public, identity in zip(self.recipients, self._identities, strict=True):
            lines += [f"# public key: {public}", str(identity)]
        return "\n".join(lines) + "\n"


@dataclass(frozen=True)
class KeyFiles:
    """Where `keygen` put the four files."""

    signing_key: Path
    fleet_key: Path
    recipients: Path
    signers: Path

    def environ(self) -> dict[str, str]:
        """The variables that point a process at them."""
        return {
            SIGNING_KEY_ENV: str(self.signing_key),
            FLEET_KEY_ENV: str(self.fleet_key),
            TRUSTED_SIGNERS_ENV: str(self.signers),
        }


def keygen(folder: Path, *, evals: list[str], queues: list[str], now: datetime) -> KeyFiles:
    """Make a signing key, a fleet key and the two public files that go with them.

    Existing files are never overwritten; private ones are created 0600 in a folder made 0700.

    Raises:
        UsageError: one of the files is there already.
    """
    files = KeyFiles(folder / "signing.key", folder / "fleet.key", folder / "fleet.pub", folder / "signers.json")
    for path in (files.signing_key, files.fleet_key, files.recipients, files.signers):
        if path.exists():
            raise UsageError(f"{path}: already there; choose another folder, or move it away to make new keys")
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    signing, fleet = SigningKey.generate(), FleetKey.generate()
    signers = TrustedSigners(signers=[signing.entry(evals=evals, queues=queues)])
    _write_new(files.signing_key, signing.document(now).to_json() + b"\n", 0o600)
    _write_new(files.fleet_key, fleet.file_text(now).encode(), 0o600)
    _write_new(files.recipients, "".join(f"{one}\n" for one in fleet.recipients).encode(), 0o644)
    _write_new(files.signers, signers.model_dump_json(indent=2, exclude_none=True).encode() + b"\n", 0o644)
    return files


def key_id_of(public: bytes) -> str:
    """A key's ID: the first 16 hex digits of the SHA-256 of its raw public bytes."""
    return digest_bytes(public)[:16]


def load_signing_key(path: Path) -> SigningKey:
    """Read a private signing key.

    Raises:
        UsageError: missing, readable by others, damaged, or its public half does not belong to it.
    """
    document = _parse(SigningKeyFile, _read_private(path), path)
    seed = _unb64(document.private_key, path)
    if len(seed) != 32:
        raise UsageError(f"{path}: an Ed25519 private key has 32 bytes, this has {len(seed)}")
    key = SigningKey.from_seed(seed)
    if (key.key_id, key.public_key) != (document.key_id, document.public_key):
        raise UsageError(f"{path}: keyId or publicKey does not belong to the private key; make a new one")
    return key


def load_fleet_key(path: Path) -> FleetKey:
    """Read a private age file: one identity a line, comments allowed.

    Raises:
        UsageError: missing, readable by others, empty or damaged.
    """
    lines = _age_lines(_read_private(path))
    x25519, pyrage = need("pyrage.x25519"), need("pyrage")
    try:
        identities = [x25519.Identity.from_str(line) for line in lines]
    except pyrage.IdentityError:
        # The library's message is not shown: it may quote the line.
        raise UsageError(f"{path}: not an age identity file (lines AGE-SECRET-KEY-1...)") from None
    if not identities:
        raise UsageError(f"{path}: holds no age identity")
    return FleetKey.of(identities)


def load_recipients(path: Path) -> tuple[str, ...]:
    """Read whom secrets are sealed to: `age1...` lines, or an identity file, whose public halves are taken.

    Raises:
        UsageError: missing, empty or damaged; or private and readable by others.
    """
    data = _read(path)
    lines = _age_lines(data)
    if any(line.startswith(_PRIVATE_AGE) for line in lines):
        return load_fleet_key(path).recipients
    check_recipients(lines, str(path))
    return tuple(lines)


def check_recipients(recipients: Iterable[str], place: str) -> list[Any]:
    """Parse age recipients.

    Raises:
        UsageError: none given, or one is not an X25519 recipient.
    """
    x25519, pyrage = need("pyrage.x25519"), need("pyrage")
    parsed = []
    for number, one in enumerate(recipients, start=1):
        try:
            parsed.append(x25519.Recipient.from_str(one))
        except pyrage.RecipientError as error:
            raise UsageError(f"{place}: recipient {number} is not an age recipient (age1...): {error}") from error
    if not parsed:
        raise UsageError(f"{place}: names no age recipient")
    return parsed


def load_trusted_signers(path: Path) -> TrustedSigners:
    """Read the signers that a worker host trusts.

    Raises:
        UsageError: missing, writable by everyone, damaged, an ID that is not its key's, or a key listed twice.
    """
    if path.exists() and path.stat().st_mode & stat.S_IWOTH:
        raise UsageError(f"{path}: everyone may write this list of trusted keys; run: chmod o-w {path}")
    document = _parse(TrustedSigners, _read(path), path)
    seen: set[str] = set()
    for entry in document.signers:
        if key_id_of(_unb64(entry.public_key, path)) != entry.key_id:
            raise UsageError(f"{path}: keyId {entry.key_id} does not belong to its publicKey")
        if entry.key_id in seen:
            raise UsageError(f"{path}: key {entry.key_id} is listed twice")
        seen.add(entry.key_id)
    return document


def _parse(kind: type[DocumentT], data: bytes, path: Path) -> DocumentT:
    try:
        return kind.from_json(data, str(path))
    except MstError as error:
        # Not chained: a parser's message may quote what it read.
        raise UsageError(str(error)) from None


def _read(path: Path) -> bytes:
    try:
        if path.stat().st_size > KEY_FILE_MAX_BYTES:
            raise UsageError(f"{path}: larger than any key file ({KEY_FILE_MAX_BYTES} bytes)")
        return path.read_bytes()
    except OSError as error:
        raise UsageError(f"{path}: cannot be read: {error.strerror}") from error


def _read_private(path: Path) -> bytes:
    data = _read(path)
    mode = stat.S_IMODE(path.stat().st_mode)
    if mode & 0o077:
        raise UsageError(f"{path}: a private key that others can read (mode {mode:03o}); run: chmod 600 {path}")
    return data


def _age_lines(data: bytes) -> list[str]:
    lines = (line.strip() for line in data.decode(errors="replace").splitlines())
    return [line for line in lines if line and not line.startswith("#")]


def _write_new(path: Path, data: bytes, mode: int) -> None:
    """Create a file whole or not at all; fails when it exists."""
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(8)}")
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode)
    try:
        with os.fdopen(descriptor, "wb") as sink:
            sink.write(data)
            sink.flush()
            os.fsync(sink.fileno())
        os.link(temporary, path)
    except FileExistsError as error:
        raise UsageError(f"{path}: already there") from error
    finally:
        temporary.unlink()


def _b64(data: bytes) -> str:
    return base64.b64encode(data).decode()


def _unb64(text: str, path: Path) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except binascii.Error as error:
        raise UsageError(f"{path}: not base64") from error
