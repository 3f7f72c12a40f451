"""Changing keys while a fleet works: workers read key files again when those change, and keys overlap for a while.

The order: `rotate` on the folder that holds the fleet key adds a new identity and a new recipient beside the old ones;
give workers the file first, then coordinators `fleet.pub`. Once nothing is in flight that was sealed before, `retire`
takes the old ones away, and again both files are handed out.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from datetime import datetime
from pathlib import Path
from typing import Generic, TypeVar

import structlog

from mst.config.files import write_atomic
from mst.errors import MstError, UsageError
from mst.fleet.keys import FleetKey, load_fleet_key, load_recipients, load_trusted_signers
from mst.fleet.signing import Verifier
from mst.model.fleet import SignerEntry

FLEET_KEY = "fleet.key"
RECIPIENTS = "fleet.pub"
PRIVATE_MODE = 0o600

log = structlog.get_logger(__name__)
LoadedT = TypeVar("LoadedT")


class Fresh(Generic[LoadedT]):
    """What a file holds, read again when it was replaced or changed. Thread-safe.

    A file that cannot be read keeps what was read before: a half-made change must not stop a fleet.
    """

    def __init__(self, path: Path, load: Callable[[Path], LoadedT]) -> None:
        """Read it for the first time.

        Raises:
            UsageError, FormatError: whatever `load` raises.
        """
        self._path = path
        self._load = load
        self._lock = threading.Lock()
        self._seen = self._stamp()
        self._loaded = load(path)

    def get(self) -> LoadedT:
        """The newest that could be read."""
        with self._lock:
            stamp = self._stamp()
            if stamp != self._seen:
                self._seen = stamp
                try:
                    self._loaded = self._load(self._path)
                    log.info("keys_read_again", path=self._path.name)
                except MstError as error:
                    log.warning("keys_not_read", reason=str(error)[:300])
            return self._loaded

    def _stamp(self) -> tuple[int, int, int] | None:
        try:
            found = self._path.stat()
        except OSError:
            return None
        return found.st_ino, found.st_mtime_ns, found.st_size


def rotate(folder: Path, now: datetime) -> str:
    """Add a new fleet key beside the present one, in `fleet.key` and `fleet.pub`; returns the new recipient.

    What was sealed before stays readable. Recipients that have no identity here (a recovery key) stay too.

    Raises:
        UsageError: no fleet key is there, or a change is under way already.
    """
    key, recipients = _read(folder)
    if len(key.recipients) > 1:
        raise UsageError(f"{folder / FLEET_KEY} holds {len(key.recipients)} keys: end that change first, with --retire")
    fresh = FleetKey.generate()
    _write(folder, key.and_also(fresh), [*recipients, *fresh.recipients], now)
    return fresh.recipients[0]


def retire(folder: Path, now: datetime) -> list[str]:
    """Take every fleet key but the newest away; returns the recipients that nobody should seal to any more.

    Raises:
        UsageError: there is only one.
    """
    key, recipients = _read(folder)
    old = list(key.recipients[:-1])
    if not old:
        raise UsageError(f"{folder / FLEET_KEY} holds one key: nothing to take away")
    _write(folder, key.newest(), [one for one in recipients if one not in old], now)
    return old


def _read(folder: Path) -> tuple[FleetKey, tuple[str, ...]]:
    return load_fleet_key(folder / FLEET_KEY), load_recipients(folder / RECIPIENTS)


def _write(folder: Path, key: FleetKey, recipients: list[str], now: datetime) -> None:
    # private part first: a recipient without its identity would be a secret that nobody can open
    _replace_private(folder / FLEET_KEY, key.file_text(now).encode())
    write_atomic(folder / RECIPIENTS, "".join(f"{one}\n" for one in recipients).encode())


def _replace_private(path: Path, data: bytes) -> None:
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    temporary.unlink(missing_ok=True)
    handle = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, PRIVATE_MODE)
    try:
        with os.fdopen(handle, "wb") as stream:
            stream.write(data)
            stream.flush()
            os.fsync(stream.fileno())
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)


class FileKey:
    """The fleet key of a file, as it is now. See `Opener`."""

    def __init__(self, path: Path) -> None:
        self._fresh = Fresh(path, load_fleet_key)

    def decrypt(self, blob: bytes) -> bytes:
        """See `FleetKey.decrypt`."""
        return self._fresh.get().decrypt(blob)


class FileVerifier(Verifier):
    """Trusted signers of a file, as it is now."""

    def __init__(self, path: Path) -> None:
        self._fresh = Fresh(path, load_trusted_signers)

    @property
    def _entries(self) -> dict[str, SignerEntry]:  # type: ignore[override]  # read instead of kept
        return {entry.key_id: entry for entry in self._fresh.get().signers}
