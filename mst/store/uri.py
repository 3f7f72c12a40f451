"""From a store's URI to a store, and from objects' URIs to keys."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Mapping
from importlib.metadata import entry_points
from pathlib import Path
from urllib.parse import parse_qsl, urlencode, urlsplit, urlunsplit

from mst.errors import RefusedError, StoreError, UsageError
from mst.store.contract import Store, check_key
from mst.store.file import FileStore
from mst.store.memory import MemoryStore
from mst.store.wrap import CHECK, CHECK_MOUNT, PATIENCE_S, Patience, PatientStore

_LOG = logging.getLogger(__name__)

ENTRY_POINTS = "mst.stores"
"""Entry point group of plugins: the name is the URI's scheme, the object an `OpenStore`."""

OpenStore = Callable[[str, Mapping[str, str]], Store]
"""Opens a URI with the settings of an environment. Sends nothing yet; raises `UsageError` for a URI that is wrong."""

_SHOWN = {"addressing", "endpoint_url", "profile", "project", "region", "server_side_encryption"}
_MEMORY: dict[str, MemoryStore] = {}


def open_store(
    uri: str,
    *,
    patience: Patience | None = None,
    patience_s: float = PATIENCE_S,
    environ: Mapping[str, str] | None = None,
    notice: Callable[[str], None] | None = None,
) -> Store:
    """Open a result store; nothing is sent or made before its first use.

    Args:
        uri: `file:PATH`, `s3://BUCKET/PREFIX?endpoint_url=...&region=...&profile=...`, `gs://BUCKET/PREFIX`,
            `memory:NAME`, or a plugin's.
        patience: clock and waits of retries; overrides `patience_s`.
        patience_s: how long a call goes on trying while the store does not answer.
        environ: where credentials and settings are looked up; the process's environment by default.
        notice: told once, in a line for people, when the store has not answered for some seconds; a warning in the log
            by default.

    Raises:
        UsageError: a kind that nobody offers, or a URI that is wrong.
    """
    scheme, colon, _ = uri.partition(":")
    if not colon or "/" in scheme:
        raise UsageError(f"{redacted(uri)!r} is not a store URI; for a folder, write file:{redacted(uri)}")
    store = _opener(scheme)(uri, os.environ if environ is None else environ)
    check, tell = CHECK_MOUNT if scheme == "file" else CHECK, _once(notice or _LOG.warning)
    return PatientStore(store, patience or Patience(patience_s=patience_s, check=check, notice=tell))


def _once(tell: Callable[[str], None]) -> Callable[[str], None]:
    told: list[str] = []

    def first(line: str) -> None:
        if not told:
            told.append(line)
            tell(line)

    return first


def redacted(uri: str) -> str:
    """A store URI that may be shown and recorded: without user names, passwords and unknown settings' values."""
    try:
        parts = urlsplit(uri)
        query = [(key, _shown(key, value)) for key, value in parse_qsl(parts.query, keep_blank_values=True)]
    except ValueError:
        return f"{uri.partition(':')[0]}:***"
    if parts.scheme in ("file", "memory", ""):
        return uri
    host = parts.netloc.rpartition("@")[2]
    return urlunsplit((parts.scheme, host, parts.path, urlencode(query, safe="*:/"), ""))


def for_record(uri: str) -> str:
    """A store URI as runs record it, and as another place can use it: `redacted`, and a folder by its whole path."""
    return open_store(uri).uri if uri.startswith("file:") else redacted(uri)


def check_writable(store: Store, folder: str) -> None:
    """Write a small object, so that a store that refuses is found before there is work to lose.

    Overwrites the empty object `<folder>/writable`, which stays.

    Raises:
        StoreError: or a subclass; one line that names the store and what to do.
    """
    store.put(f"{folder}/writable", b"")


def object_uri(store: Store, key: str) -> str:
    """The URI of an object or folder: the store's own and the key. Carries no settings and no secret."""
    return f"{store.uri.rstrip('/')}/{check_key(key)}"


def key_of(store: Store, uri: str) -> str:
    """The key that `object_uri` made a URI of.

    Raises:
        RefusedError: the URI is not below this store's.
    """
    start = f"{store.uri.rstrip('/')}/"
    if not uri.startswith(start):
        raise RefusedError(f"{redacted(uri)[:200]} is not in the store {store.uri}")
    try:
        return check_key(uri[len(start) :])
    except StoreError as error:
        raise RefusedError(f"{redacted(uri)[:200]} is not an object of the store {store.uri}") from error


def _shown(name: str, value: str) -> str:
    if name == "endpoint_url":
        return redacted(value)
    return value if name in _SHOWN else "***"


def _opener(scheme: str) -> OpenStore:
    built_in = _BUILT_IN.get(scheme)
    if built_in is not None:
        return built_in
    found = {point.name: point for point in entry_points(group=ENTRY_POINTS)}
    if scheme not in found:
        kinds = ", ".join(f"{name}:" for name in sorted({*_BUILT_IN, *found} - {"memory"}))
        raise UsageError(f"there is no kind of store {scheme[:40]!r}; there are {kinds}")
    opener: OpenStore = found[scheme].load()
    return opener


def _open_file(uri: str, environ: Mapping[str, str]) -> Store:
    rest = uri.partition(":")[2]
    if rest.startswith("//"):
        host, slash, path = rest[2:].partition("/")
        if host or not slash:
            raise UsageError("a file: store is file:PATH or file:///PATH; other machines' folders must be mounted")
        rest = f"/{path}"
    if not rest:
        raise UsageError("a file: store needs a folder: file:PATH")
    home = environ.get("HOME")
    return FileStore(Path(home, rest[2:]) if home and rest.startswith("~/") else Path(rest))


def _open_memory(uri: str, environ: Mapping[str, str]) -> Store:  # noqa: ARG001 - an `OpenStore`
    name = uri.partition(":")[2]
    return _MEMORY.setdefault(name, MemoryStore(name))


def _open_s3(uri: str, environ: Mapping[str, str]) -> Store:
    from mst.store.s3 import open_s3  # noqa: PLC0415 - brings obstore, which only this kind needs

    return open_s3(uri, environ)


def _open_gcs(uri: str, environ: Mapping[str, str]) -> Store:
    from mst.store.gcs import open_gcs  # noqa: PLC0415 - as above

    return open_gcs(uri, environ)


_BUILT_IN: dict[str, OpenStore] = {"file": _open_file, "gs": _open_gcs, "memory": _open_memory, "s3": _open_s3}
