"""What a result store can do: the contract that every kind of store keeps and every caller relies on.

`mst.testing.store.StoreContract` checks it. A new kind implements `Store`, registers under the entry point group
`mst.stores` and subclasses that suite.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Protocol

from mst.errors import StoreError
from mst.model.keys import OBJECT_KEY_MAX_BYTES, OBJECT_SEGMENT, is_object_key

GET_MAX_BYTES = 256 * 1024 * 1024
"""`get` refuses larger objects; they are streamed to a file with `get_to`."""

BRIEF_CHARS = 80


@dataclass(frozen=True, slots=True)
class ObjectInfo:
    """What is known of an object without reading it.

    Attributes:
        key: where it is.
        size: its length in bytes.
        version: changes with every write; opaque. For `replace_if_match`.
        modified: when it was last written, by the store's own clock, to the second. No part of equality.
    """

    key: str
    size: int
    version: str
    modified: datetime = field(compare=False)


@dataclass(frozen=True, slots=True)
class Folder:
    """One level of a store.

    Attributes:
        objects: those directly in the folder, in no promised order.
        folders: last segments of the folders directly below it, in no promised order.
    """

    objects: tuple[ObjectInfo, ...]
    folders: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Digested:
    """Size and SHA-256 (64 lower-case hex digits) of bytes that went by."""

    size: int
    sha256: str


class Store(Protocol):
    """Objects under keys. Blocking and thread-safe; one store may serve many threads at once.

    Keys are relative POSIX paths (`check_key`). A key is never the folder of another key: a store may refuse that.
    Every write is atomic (a reader sees the old bytes or the new ones, never a part) and durable when the call
    returns. A reader that starts after a write returned sees it, in `get`, `head` and listings alike. What is there
    under a name that is no key is somebody else's, and is never listed.

    Errors of every method, besides those it names:
        StoreUnavailable: no answer, or an answer that says "later". Retryable. The write may have happened.
        StoreDenied: the credentials don't allow it, or have expired.
        StoreError: anything else that waiting does not mend (no such bucket, disk full, a bad key).
    """

    @property
    def uri(self) -> str:
        """The store's URI without secrets and settings: what messages, records and objects' URIs are made of."""
        ...

    def get(self, key: str, *, max_bytes: int = GET_MAX_BYTES) -> bytes:
        """All bytes of one version of an object.

        Raises:
            ObjectMissing: there is none.
            WrongSize: it is larger than `max_bytes`; nothing was read.
        """
        ...

    def get_to(self, key: str, path: Path) -> Digested:
        """Stream one version of an object into a file, in memory that does not grow with the object.

        The file is created or overwritten. After an error there is none. The digest is over the bytes written.

        Raises:
            ObjectMissing: there is none.
        """
        ...

    def get_range(self, key: str, start: int, length: int) -> bytes | memoryview:
        """A part of one version of an object, at most `GET_MAX_BYTES`, in whatever holds it without a copy.

        Raises:
            ObjectMissing: there is none.
            WrongSize: it ends before the range does.
            StoreError: what is asked for is no range.
        """
        ...

    def put(self, key: str, data: bytes | memoryview | Path, *, sha256: str | None = None) -> None:
        """Write an object, whether or not there is one. A path is streamed.

        Args:
            key: where.
            data: the bytes, or a file that holds them.
            sha256: what the bytes must be. Checked on the way, so a file that changes while it is sent is noticed.

        Raises:
            DigestMismatch: the bytes are others; the store is as before.
        """
        ...

    def put_if_absent(self, key: str, data: bytes) -> None:
        """Create an object. Of any number of callers at once exactly one succeeds.

        Raises:
            PreconditionFailed: there is one already, durably.
        """
        ...

    def replace_if_match(self, key: str, data: bytes, version: str) -> None:
        """Replace an object that still has the version that `head` gave.

        To change a value: `head`, then `get`, then this. A key that is replaced so must be written by `put_if_absent`
        and `replace_if_match` only.

        Raises:
            PreconditionFailed: it has another version, or there is none.
        """
        ...

    def head(self, key: str) -> ObjectInfo | None:
        """Size and version of an object, None when there is none."""
        ...

    def list(self, prefix: str) -> Iterator[ObjectInfo]:
        """Every object below a folder (`""` is the whole store), as a stream, each once, in no promised order."""
        ...

    def list_folder(self, prefix: str) -> Folder:
        """What is directly in a folder. Costs nothing for what lies deeper.

        A folder whose objects were all deleted may still be named for a while.
        """
        ...

    def delete(self, key: str) -> None:
        """Remove an object. One that is not there is no error."""
        ...


def check_key(key: str) -> str:
    """The key, if it is one.

    A key is 1 to 900 bytes of segments joined by `/`. A segment is 1 to 255 of the characters
    `A-Z a-z 0-9 _ % ~ ! ' ( ) = + @ , - .` and does not begin with a dot: so it can't climb, clash with a file that
    a store keeps for itself, or mean different things to different servers.

    Raises:
        StoreError: it is not.
    """
    if not is_object_key(key):
        raise StoreError(
            f"{key[:200]!r} is not a key of a store: relative, plain segments, at most {OBJECT_KEY_MAX_BYTES} bytes"
        )
    return key


def check_range(key: str, start: int, length: int) -> None:
    """Refuse a range that is none.

    Raises:
        StoreError: it begins before the object, or is larger than `get` allows.
    """
    if start < 0 or not 0 <= length <= GET_MAX_BYTES:
        raise StoreError(f"{key}: {length} bytes from {start} are not a range of at most {GET_MAX_BYTES} bytes")


def check_prefix(prefix: str) -> str:
    """The folder, if it is `""` or a key.

    Raises:
        StoreError: it is neither.
    """
    return prefix if prefix == "" else check_key(prefix)


def is_segment(name: str) -> bool:
    """Whether a name can be a segment of a key."""
    return OBJECT_SEGMENT.fullmatch(name) is not None


def brief_key(key: str) -> str:
    """A key as messages name it where the reason matters more: those of packs can be longer than the rest together."""
    return key if len(key) <= BRIEF_CHARS else f"{key[: BRIEF_CHARS // 2]}...{key[-BRIEF_CHARS // 2 :]}"
