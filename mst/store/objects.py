"""What all object stores on obstore share: the contract of `Store` over its calls, and its errors put in our words.

obstore's own retries are off: a retry that it makes for us would hide that a conditional write may have succeeded.
`mst.store.wrap` retries. Memory: four parts of an upload, or one piece of a download.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import obstore
from obstore.exceptions import (
    AlreadyExistsError,
    BaseError,
    PermissionDeniedError,
    PreconditionError,
    UnauthenticatedError,
)

from mst.errors import MstError, ObjectMissing, PreconditionFailed, StoreDenied, StoreError, StoreUnavailable, WrongSize
from mst.model.keys import is_object_key
from mst.store.contract import (
    GET_MAX_BYTES,
    Digested,
    Folder,
    ObjectInfo,
    brief_key,
    check_key,
    check_prefix,
    check_range,
    is_segment,
)
from mst.store.streams import file_size, pieces, save

if TYPE_CHECKING:
    from obstore import ObjectMeta, PutMode
    from obstore.store import ClientConfig, ObjectStore, RetryConfig

PART_BYTES = 5 * 1024 * 1024
"""Size of a part of a large upload; 5 MiB is the least that S3 takes."""
ONE_PUT_BYTES = 8 * 1024 * 1024
"""Up to this size an upload is one request."""
MOST_PARTS = 9_000
PARTS_AT_ONCE = 4
STREAM_BYTES = 1024 * 1024
LIST_PAGE = 1000

SILENCE_S = 30.0
"""A request that gets no byte for so long is given up."""
BULK_SILENCE_S = 300.0
"""The same for one that sends more than `SMALL_BYTES`: no byte comes before all are sent, and a line may be slow."""
SMALL_BYTES = 256 * 1024

NO_RETRIES: RetryConfig = {"max_retries": 0}

_STATUS = re.compile(r"status code: (\d{3})")
_CODE = re.compile(r"<Code>([A-Za-z]{1,60})</Code>|\(code: ([A-Za-z]{1,60})\)")
_ASKED = re.compile(r"performing [A-Z]+ (https?://[^/?#\s@]+)")
_CAUSE = re.compile(r'\b(?:message|error): "([^"\n]{1,120})"')
"""In the library's account of what lies below: what the operating system said."""
_FOREIGN = re.compile(r'object with invalid path: .*? Path "(.*?)": ', re.DOTALL)
"""The library lists nothing of a folder in which an object has such a name."""
_CREDENTIAL_HOSTS = ("169.254.169.254", "169.254.170.2", "metadata.google.internal", "token request")
_EXPIRED = {"ExpiredToken", "ExpiredTokenException", "TokenRefreshRequired", "InvalidToken"}
_DENIED_CODES = {"AccessDenied", "InvalidAccessKeyId", "SignatureDoesNotMatch", "RequestTimeTooSkewed", *_EXPIRED}
_LATER_CODES = dict.fromkeys(
    ("RequestTimeout", "SlowDown", "Throttling", "OperationAborted", "ConditionalRequestConflict"), "busy"
) | dict.fromkeys(
    ("BadDigest", "XAmzContentChecksumMismatch", "XAmzContentSHA256Mismatch", "IncompleteBody"),
    "other bytes arrived than were sent",
)


def client_options(endpoint_url: str | None, *, silence_s: float) -> ClientConfig:
    """Time limits of a connection; plain HTTP only where the endpoint says so."""
    return {
        "allow_http": bool(endpoint_url and endpoint_url.startswith("http://")),
        "connect_timeout": timedelta(seconds=10),
        "read_timeout": timedelta(seconds=silence_s),
        "timeout": timedelta(hours=2),
    }


class ObstoreStore:
    """A bucket's prefix behind the contract of `Store`.

    Args:
        backend: the bucket with its prefix, its own retries off.
        bulk: the same for what takes long to send; `backend` by default.
        uri: without secrets, for messages.
        hint: what a user may do when the store refuses; ends its messages.
        versioned_by: the name under which this kind of store tells versions: `e_tag` (S3) or `version` (GCS).
    """

    def __init__(
        self,
        backend: ObjectStore,
        *,
        uri: str,
        hint: str,
        versioned_by: str = "e_tag",
        bulk: ObjectStore | None = None,
    ) -> None:
        self._backend = backend
        self._bulk = bulk or backend
        self._uri = uri
        self._hint = hint
        self._versioned_by = versioned_by

    @property
    def uri(self) -> str:
        """See `Store.uri`."""
        return self._uri

    def get(self, key: str, *, max_bytes: int = GET_MAX_BYTES) -> bytes:
        """See `Store.get`."""
        with self._looked_for(check_key(key)), self._mapped("read", key):
            found = obstore.get(self._backend, key)
            size = found.meta["size"]
            if size > max_bytes:
                raise WrongSize(f"{self.uri}: {key} has {size} bytes, more than the {max_bytes} allowed here")
            data = bytes(found.bytes())
        self._check_length(key, len(data), size)
        return data

    def get_to(self, key: str, path: Path) -> Digested:
        """See `Store.get_to`."""
        check_key(key)
        return save(self._chunks(key), path)

    def get_range(self, key: str, start: int, length: int) -> bytes | memoryview:
        """See `Store.get_range`."""
        check_range(check_key(key), start, length)
        try:
            with self._mapped("read", key):
                data = self._range(key, start, length) if length else b""
        except (ObjectMissing, StoreDenied):
            raise
        except StoreError:
            self._check_reaches(key, start + length)
            raise
        if len(data) != length or not length:
            self._check_reaches(key, start + length)
        self._check_length(key, len(data), length)
        return data

    def put(self, key: str, data: bytes | memoryview | Path, *, sha256: str | None = None) -> None:
        """See `Store.put`. More than eight MiB go in parts, which show as one object at the end."""
        check_key(key)
        size = file_size(data) if isinstance(data, Path) else len(data)
        chunks = pieces(data, sha256)
        if size <= ONE_PUT_BYTES:
            parts = list(chunks)
            self._put(key, parts[0] if len(parts) == 1 else b"".join(parts))
            return
        with self._mapped("write", key):
            part_bytes = max(PART_BYTES, -(-size // MOST_PARTS))
            obstore.put(self._bulk, key, chunks, chunk_size=part_bytes, max_concurrency=PARTS_AT_ONCE)

    def put_if_absent(self, key: str, data: bytes) -> None:
        """See `Store.put_if_absent`."""
        self._put(check_key(key), data, mode="create")

    def replace_if_match(self, key: str, data: bytes, version: str) -> None:
        """See `Store.replace_if_match`."""
        mode: Any = {self._versioned_by: version}
        try:
            self._put(check_key(key), data, mode=mode)
        except ObjectMissing as error:
            raise PreconditionFailed(f"{self.uri}: {key} is gone") from error

    def head(self, key: str) -> ObjectInfo | None:
        """See `Store.head`."""
        try:
            with self._looked_for(check_key(key)), self._mapped("look at", key):
                return self._info(obstore.head(self._backend, key))
        except ObjectMissing:
            return None

    def list(self, prefix: str) -> Iterator[ObjectInfo]:
        """See `Store.list`."""
        check_prefix(prefix)
        return self._list(prefix)

    def list_folder(self, prefix: str) -> Folder:
        """See `Store.list_folder`."""
        with self._mapped("list", check_prefix(prefix)):
            found = obstore.list_with_delimiter(self._backend, prefix or None)
        names = (path.rstrip("/").rpartition("/")[2] for path in found["common_prefixes"])
        return Folder(tuple(self._ours(found["objects"], prefix)), tuple(filter(is_segment, names)))

    def delete(self, key: str) -> None:
        """See `Store.delete`."""
        try:
            with self._mapped("delete", check_key(key)):
                obstore.delete(self._backend, key)
        except ObjectMissing:
            return

    def _put(self, key: str, data: bytes | memoryview, mode: PutMode = "overwrite") -> None:
        backend = self._backend if len(data) <= SMALL_BYTES else self._bulk
        with self._mapped("write", key):
            obstore.put(backend, key, data, mode=mode, use_multipart=False)

    def _list(self, prefix: str) -> Iterator[ObjectInfo]:
        with self._mapped("list", prefix):
            for page in obstore.list(self._backend, prefix or None, chunk_size=LIST_PAGE):
                yield from self._ours(page, prefix)

    def _ours(self, page: Iterable[ObjectMeta], prefix: str) -> Iterator[ObjectInfo]:
        """Without what others keep in the bucket, and the objects by which consoles remember empty folders."""
        return (self._info(meta) for meta in page if meta["path"] != prefix and is_object_key(meta["path"]))

    def _chunks(self, key: str) -> Iterator[bytes]:
        seen = 0
        with self._mapped("read", key):
            found = obstore.get(self._backend, key)
            for chunk in found.stream(min_chunk_size=STREAM_BYTES):
                seen += len(chunk)
                yield bytes(chunk)
        self._check_length(key, seen, found.meta["size"])

    def _check_length(self, key: str, found: int, promised: int) -> None:
        if found != promised:
            raise StoreUnavailable(f"{self.uri}: {key} broke off after {found} of {promised} bytes")

    def _range(self, key: str, start: int, length: int) -> memoryview:
        """As the library holds it: a copy costs a sixth of what a fetch of large files does."""
        return memoryview(obstore.get_range(self._backend, key, start=start, length=length))

    def _check_reaches(self, key: str, end: int) -> None:
        """A range that came back short, or not at all, may lie beyond the object: that is no matter of waiting."""
        found = self.head(key)
        if found is None:
            raise ObjectMissing(f"{self.uri}: no object {key}")
        if found.size < end:
            raise WrongSize(f"{self.uri}: {key} ends before byte {end}, it has {found.size} bytes")

    def _info(self, meta: ObjectMeta) -> ObjectInfo:
        version = meta["version"] if self._versioned_by == "version" else meta["e_tag"]
        return ObjectInfo(meta["path"], meta["size"], version or "", meta["last_modified"])

    @contextmanager
    def _looked_for(self, key: str) -> Iterator[None]:
        """Amazon says "denied" of an object that is not there to whom may list its folder only, as workers may."""
        try:
            yield
        except StoreDenied as error:
            try:
                beside = self.list_folder(key.rpartition("/")[0]).objects
            except StoreError:
                raise error from None
            if any(info.key == key for info in beside):
                raise
            raise ObjectMissing(f"{self.uri}: no object {key}") from error

    @contextmanager
    def _mapped(self, action: str, key: str) -> Iterator[None]:
        try:
            yield
        except MstError:
            raise
        except (BaseError, FileNotFoundError) as error:
            raise self._error(error, action, key) from error

    def _error(self, error: Exception, action: str, key: str) -> StoreError:
        text = str(error)
        status, code = _status(text), _code(text)
        what = f"cannot {action} {brief_key(key) or 'objects'} in {self.uri}"
        if code == "NoSuchBucket":
            return StoreError(f"{what}: the bucket does not exist; create it or correct the URI")
        # obstore reports a write in flight (409) as if the object existed, which nobody knows yet.
        if status == 409 or code in _LATER_CODES:
            return StoreUnavailable(f"{what}: {_LATER_CODES.get(code or '', 'busy')} ({code or status})")
        if isinstance(error, (AlreadyExistsError, PreconditionError)):
            return PreconditionFailed(f"{self.uri}: {key} is there already, or has changed")
        if isinstance(error, FileNotFoundError):
            return ObjectMissing(f"{self.uri}: no object {key}")
        if _is_denied(error, text, status, code):
            return StoreDenied(f"{what}: {_why_denied(text, code, self._hint)}")
        if status is None:
            return _unanswered(what, text)
        if status >= 500 or status in (408, 429):
            return StoreUnavailable(f"{what}: the server answered {status} ({code or _reason(text)})")
        return StoreError(f"{what}: the server answered {status} ({code or _reason(text)})")


def _status(text: str) -> int | None:
    found = _STATUS.search(text)
    return int(found[1]) if found else None


def _code(text: str) -> str | None:
    found = _CODE.search(text)
    return (found[1] or found[2]) if found else None


def _asks_for_credentials(text: str) -> bool:
    head = text[:500]
    return any(host in head for host in _CREDENTIAL_HOSTS)


def _is_denied(error: Exception, text: str, status: int | None, code: str | None) -> bool:
    by_class = isinstance(error, (PermissionDeniedError, UnauthenticatedError))
    return by_class or status in (401, 403) or code in _DENIED_CODES or _asks_for_credentials(text)


def _why_denied(text: str, code: str | None, hint: str) -> str:
    if _asks_for_credentials(text):
        return f"no credentials found; {hint}"
    if code in _EXPIRED:
        return f"the credentials have expired ({code}); get new ones, then the same command goes on"
    if code == "RequestTimeTooSkewed":
        return f"this machine's clock is wrong ({code}); set it"
    return f"access denied ({code}); {hint}" if code else f"access denied; {hint}"


def _unanswered(what: str, text: str) -> StoreError:
    if (named := _FOREIGN.search(text)) is not None:
        name = named[1][:200]
        return StoreError(f"{what}: {name!r} is no name of ours; remove it, or give mst a prefix of its own")
    asked = _ASKED.search(text)
    answer = f"{what}: no answer{f' from {asked[1]}' if asked else ''}"
    if "InvalidContentType" in text:
        # What came was no TLS at all: that is how another address is set, and no waiting mends it.
        return StoreError(f"{answer} in TLS, which it does not speak; should its URL begin with http://?")
    cause = _CAUSE.search(text)
    return StoreUnavailable(f"{answer} ({cause[1] if cause else _reason(text)})")


def _reason(text: str) -> str:
    """The first line without addresses and headers: what went wrong, in the library's words, at most 120 characters."""
    line = text.splitlines()[0] if text else ""
    return line.rpartition(" - ")[2][:120]
