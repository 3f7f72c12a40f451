"""`gs://BUCKET/PREFIX`: Google Cloud Storage through its JSON API, with Google's own client.

obstore writes to Google through the XML API, which no server that runs in a test can answer; what is not tested is
not trusted with results. Credentials are Google's application default ones: `GOOGLE_APPLICATION_CREDENTIALS`, the
user's login, or the machine's service account. `STORAGE_EMULATOR_HOST`, or `endpoint_url` with plain HTTP, names a
server without credentials.

The client's own retries are off, for the reason that `mst.store.objects` gives.
"""

from __future__ import annotations

import http.client
import io
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mst.errors import (
    MstError,
    ObjectMissing,
    PreconditionFailed,
    StoreDenied,
    StoreError,
    StoreUnavailable,
    UsageError,
    WrongSize,
)
from mst.model.keys import is_object_key
from mst.store.address import read_address
from mst.store.contract import (
    GET_MAX_BYTES,
    Digested,
    Folder,
    ObjectInfo,
    Store,
    brief_key,
    check_key,
    check_prefix,
    check_range,
    is_segment,
)
from mst.store.streams import file_size, pieces, save

if TYPE_CHECKING:
    from google.cloud.storage import Blob, Bucket, Client

SETTINGS = ("endpoint_url", "kms_key", "project")
PART_BYTES = 8 * 1024 * 1024
"""Larger uploads go in parts of this size; a multiple of 256 KiB, as the API wants."""
TIMEOUT_S = (10.0, 30.0)
"""To connect, and without a byte of an answer."""
BULK_TIMEOUT_S = (10.0, 300.0)
"""For what sends more than `SMALL_BYTES`: a slow line may still have much of it to send."""
SMALL_BYTES = 256 * 1024
_LATER = {408, 409, 429}
_HINT = (
    "set GOOGLE_APPLICATION_CREDENTIALS, or run `gcloud auth application-default login`, and check that the role"
    " allows it"
)


def open_gcs(uri: str, environ: Mapping[str, str]) -> Store:
    """Open a bucket's prefix. Sends nothing yet.

    Args:
        uri: `gs://BUCKET/PREFIX?setting=value`.
        environ: where `STORAGE_EMULATOR_HOST` and the credentials file are looked up.

    Raises:
        UsageError: a URI or a setting that is wrong, or Google's client is not installed.
    """
    address = read_address(uri, SETTINGS)
    try:
        from google.cloud import storage  # noqa: F401, PLC0415 - optional and heavy
    except ImportError as error:
        raise UsageError("gs: stores need the extra gcs: pip install 'mst[gcs]'") from error
    return GcsStore(address.bucket, address.prefix, address.settings, environ)


class GcsStore:
    """A bucket's prefix behind the contract of `Store`. Versions are generations.

    Args:
        bucket: its name.
        prefix: of every key, without slashes at its ends; may be empty.
        settings: from the URI.
        environ: see `open_gcs`.
    """

    def __init__(self, bucket: str, prefix: str, settings: Mapping[str, str], environ: Mapping[str, str]) -> None:
        self._name = bucket
        self._prefix = f"{prefix}/" if prefix else ""
        self._settings = settings
        self._environ = environ
        self._uri = f"gs://{bucket}/{prefix}"

    @property
    def uri(self) -> str:
        """See `Store.uri`."""
        return self._uri

    def get(self, key: str, *, max_bytes: int = GET_MAX_BYTES) -> bytes:
        """See `Store.get`."""
        blob = self._found(key)
        if (blob.size or 0) > max_bytes:
            raise WrongSize(f"{self.uri}: {key} has {blob.size} bytes, more than the {max_bytes} allowed here")
        with self._mapped("read", key):
            # One version: an object that is replaced between the two requests is missing rather than mixed.
            data = bytes(blob.download_as_bytes(**_ONCE, if_generation_match=blob.generation))
        self._check_length(key, len(data), blob.size or 0)
        return data

    def get_to(self, key: str, path: Path) -> Digested:
        """See `Store.get_to`."""
        check_key(key)
        return save(self._chunks(key), path)

    def get_range(self, key: str, start: int, length: int) -> bytes:
        """See `Store.get_range`."""
        check_range(check_key(key), start, length)
        if length == 0:
            self._check_reaches(key, start)
            return b""
        try:
            with self._mapped("read", key):
                data = bytes(self._blob(key).download_as_bytes(**_ONCE, start=start, end=start + length - 1))
        except StoreError as error:
            if not isinstance(error, ObjectMissing) and "416" in str(error):
                self._check_reaches(key, start + length)
            raise
        if len(data) != length:
            self._check_reaches(key, start + length)
        self._check_length(key, len(data), length)
        return data

    def put(self, key: str, data: bytes | memoryview | Path, *, sha256: str | None = None) -> None:
        """See `Store.put`. More than eight MiB go in parts, which show as one object at the end."""
        check_key(key)
        size = file_size(data) if isinstance(data, Path) else len(data)
        chunks = pieces(data, sha256)
        if size <= PART_BYTES:
            self._put(key, b"".join(chunks))
            return
        blob = self._blob(key)
        blob.chunk_size = PART_BYTES
        with self._mapped("write", key):
            blob.upload_from_file(_Reader(chunks, size), size=size, **_BULK)

    def put_if_absent(self, key: str, data: bytes) -> None:
        """See `Store.put_if_absent`."""
        self._put(check_key(key), data, if_generation_match=0)

    def replace_if_match(self, key: str, data: bytes, version: str) -> None:
        """See `Store.replace_if_match`."""
        check_key(key)
        if not version.isdigit():
            raise PreconditionFailed(f"{self.uri}: {key} has another version")
        try:
            self._put(key, data, if_generation_match=int(version))
        except ObjectMissing as error:
            raise PreconditionFailed(f"{self.uri}: {key} is gone") from error

    def head(self, key: str) -> ObjectInfo | None:
        """See `Store.head`."""
        try:
            return self._info(self._found(key))
        except ObjectMissing:
            return None

    def list(self, prefix: str) -> Iterator[ObjectInfo]:
        """See `Store.list`."""
        return self._list(check_prefix(prefix))

    def list_folder(self, prefix: str) -> Folder:
        """See `Store.list_folder`."""
        below = self._below(check_prefix(prefix))
        with self._mapped("list", prefix):
            found = self._client.list_blobs(self._bucket, prefix=below, delimiter="/", **_ONCE)
            objects = tuple(self._ours(found))
            folders = tuple(filter(is_segment, (name.rstrip("/").rpartition("/")[2] for name in found.prefixes)))
        return Folder(objects, folders)

    def delete(self, key: str) -> None:
        """See `Store.delete`."""
        try:
            with self._mapped("delete", check_key(key)):
                self._blob(key).delete(**_ONCE)
        except ObjectMissing:
            return

    @cached_property
    def _client(self) -> Client:
        from google.auth.credentials import AnonymousCredentials  # noqa: PLC0415 - optional and heavy
        from google.cloud import storage  # noqa: PLC0415 - optional and heavy

        endpoint = self._settings.get("endpoint_url") or self._environ.get("STORAGE_EMULATOR_HOST")
        options: dict[str, Any] = {"api_endpoint": endpoint.rstrip("/")} if endpoint else {}
        project = self._settings.get("project") or self._environ.get("GOOGLE_CLOUD_PROJECT") or "none"
        if endpoint and endpoint.startswith("http://"):
            anonymous = AnonymousCredentials()  # type: ignore[no-untyped-call]  # its package is untyped
            client = storage.Client(project=project, credentials=anonymous, client_options=options)
        else:
            client = storage.Client(project=project, client_options=options)
        _widen(client)
        # It would ask for the bucket in a thread of its own, for traces: a request that workers may not make.
        client._bucket_metadata_cache = None  # noqa: SLF001 - the client has no other way for one client
        return client

    @cached_property
    def _bucket(self) -> Bucket:
        return self._client.bucket(self._name)

    def _blob(self, key: str) -> Blob:
        with self._mapped("reach", key):
            return self._bucket.blob(self._prefix + key, kms_key_name=self._settings.get("kms_key"))

    def _found(self, key: str) -> Blob:
        check_key(key)
        with self._mapped("read", key):
            found = self._bucket.get_blob(self._prefix + key, **_ONCE)
        if found is None:
            raise ObjectMissing(f"{self.uri}: no object {key}")
        return found

    def _put(self, key: str, data: bytes, **condition: Any) -> None:
        blob, once = self._blob(key), _ONCE if len(data) <= SMALL_BYTES else _BULK
        with self._mapped("write", key):
            blob.upload_from_string(data, content_type="application/octet-stream", **condition, **once)

    def _list(self, prefix: str) -> Iterator[ObjectInfo]:
        with self._mapped("list", prefix):
            yield from self._ours(self._client.list_blobs(self._bucket, prefix=self._below(prefix), **_ONCE))

    def _chunks(self, key: str) -> Iterator[bytes]:
        blob = self._found(key)
        seen, size = 0, blob.size or 0
        with self._mapped("read", key):
            while seen < size:
                end = min(seen + PART_BYTES, size) - 1
                chunk = blob.download_as_bytes(**_ONCE, start=seen, end=end, if_generation_match=blob.generation)
                self._check_length(key, seen + len(chunk), end + 1)
                seen += len(chunk)
                yield bytes(chunk)

    def _below(self, prefix: str) -> str:
        return f"{self._prefix}{prefix}/" if prefix else self._prefix

    def _info(self, blob: Blob) -> ObjectInfo:
        key = str(blob.name).removeprefix(self._prefix)
        return ObjectInfo(key, int(blob.size or 0), str(blob.generation), blob.updated)

    def _ours(self, found: Iterable[Blob]) -> Iterator[ObjectInfo]:
        """Without what others keep in the bucket, and the objects by which consoles remember empty folders."""
        return (info for info in map(self._info, found) if is_object_key(info.key))

    def _check_length(self, key: str, found: int, promised: int) -> None:
        if found != promised:
            raise StoreUnavailable(f"{self.uri}: {key} broke off after {found} of {promised} bytes")

    def _check_reaches(self, key: str, end: int) -> None:
        found = self._found(key)
        if (found.size or 0) < end:
            raise WrongSize(f"{self.uri}: {key} ends before byte {end}, it has {found.size} bytes")

    @contextmanager
    def _mapped(self, action: str, key: str) -> Iterator[None]:
        import requests  # noqa: PLC0415 - comes with Google's client
        from google.api_core.exceptions import GoogleAPICallError  # noqa: PLC0415 - optional and heavy
        from google.auth.exceptions import GoogleAuthError  # noqa: PLC0415 - as above
        from google.resumable_media import DataCorruption, InvalidResponse  # noqa: PLC0415 - as above

        what = f"cannot {action} {brief_key(key) or 'objects'} in {self.uri}"
        try:
            yield
        except MstError:
            raise
        except GoogleAPICallError as error:
            raise self._error(int(error.code or 0), what, key) from error
        except InvalidResponse as error:
            raise self._error(int(error.response.status_code), what, key) from error
        except GoogleAuthError as error:
            raise self._credentials_error(error, what) from error
        except (requests.RequestException, ConnectionError, http.client.HTTPException, DataCorruption) as error:
            raise StoreUnavailable(f"{what}: no answer, or one that broke off ({_cause(error)})") from error

    def _error(self, status: int, what: str, key: str) -> StoreError:
        if status == 412:
            return PreconditionFailed(f"{self.uri}: {key} is there already, or has changed")
        if status == 404:
            if not key or self._is_bucket_missing():
                return StoreError(f"{what}: the bucket does not exist; create it or correct the URI")
            return ObjectMissing(f"{self.uri}: no object {key}")
        if status in (401, 403):
            why = "the credentials are wrong or have expired" if status == 401 else "access denied"
            return StoreDenied(f"{what}: {why}; {_HINT}")
        if status in _LATER or status >= 500:
            return StoreUnavailable(f"{what}: the server answered {status}")
        return StoreError(f"{what}: the server answered {status}")

    def _is_bucket_missing(self) -> bool:
        """Asked after a 404, which means either. Who may not look at the bucket hears that the object is missing."""
        from google.api_core.exceptions import GoogleAPICallError  # noqa: PLC0415 - optional and heavy

        try:
            return not self._bucket.exists(**_ONCE)
        except GoogleAPICallError:
            return False

    def _credentials_error(self, error: Exception, what: str) -> StoreError:
        from google.auth.exceptions import TransportError  # noqa: PLC0415 - optional and heavy

        if isinstance(error, TransportError):
            return StoreUnavailable(f"{what}: no answer from where credentials come from")
        return StoreDenied(f"{what}: no credentials, or expired ones ({type(error).__name__}); {_HINT}")


def _cause(error: BaseException) -> str:
    """What the operating system said, below all that the libraries made of it; else the kind of error."""
    below: BaseException | None = error
    while below is not None:
        if isinstance(below, OSError) and below.strerror:
            return below.strerror
        below = below.__cause__ or below.__context__
    return type(error).__name__


_ONCE: Any = {"retry": None, "timeout": TIMEOUT_S}
"""Each request is made once, with time limits."""
_BULK: Any = {"retry": None, "timeout": BULK_TIMEOUT_S}


class _Reader(io.RawIOBase):
    """Pieces as a file that is read once. They come to their end, where they are checked, before the last is given."""

    def __init__(self, chunks: Iterator[bytes | memoryview], size: int) -> None:
        self._chunks = chunks
        self._size = size
        self._left = b""
        self._position = 0

    def readable(self) -> bool:
        """Yes."""
        return True

    def tell(self) -> int:
        """Bytes read so far."""
        return self._position

    def read(self, size: int = -1) -> bytes:
        """That many bytes, fewer only at the end."""
        parts: list[bytes | memoryview] = [self._left]
        count = len(self._left)
        while size < 0 or count < size or self._position + count >= self._size:
            chunk = next(self._chunks, None)
            if chunk is None:
                break
            parts.append(chunk)
            count += len(chunk)
        data = b"".join(parts)
        taken = data if size < 0 else data[:size]
        self._left = data[len(taken) :]
        self._position += len(taken)
        return taken


def _widen(client: Client) -> None:
    """Room for as many connections as there are threads, which the client's default does not give."""
    from requests.adapters import HTTPAdapter  # noqa: PLC0415 - comes with Google's client

    adapter = HTTPAdapter(pool_connections=32, pool_maxsize=32)
    session = client._http  # noqa: SLF001 - the client's own way to share a session
    session.mount("https://", adapter)
    session.mount("http://", adapter)
