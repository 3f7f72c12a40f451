"""What the URI of a bucket says. What is wrong with it is said here, before anything is sent."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from urllib.parse import SplitResult, parse_qsl, urlsplit

from mst.errors import StoreError, UsageError
from mst.store.contract import check_prefix


@dataclass(frozen=True)
class Address:
    """Where a store is.

    Attributes:
        bucket: its name.
        prefix: of every key, without slashes at its ends; may be empty.
        settings: by name.
    """

    bucket: str
    prefix: str
    settings: Mapping[str, str]


def read_address(uri: str, settings: Collection[str]) -> Address:
    """Read `<scheme>://BUCKET/PREFIX?setting=value`.

    Args:
        uri: with a scheme.
        settings: which there are.

    Raises:
        UsageError: it is not of that form, or has other settings. No value of a setting is repeated.
    """
    scheme = uri.partition(":")[0]
    form = f"a store URI is {scheme}://BUCKET/PREFIX"
    parts = _split(uri, form)
    if not parts.netloc or "@" in parts.netloc or ":" in parts.netloc or parts.fragment:
        raise UsageError(f"{form}; an endpoint goes into ?endpoint_url=..., keys into the environment")
    prefix = parts.path.strip("/")
    try:
        check_prefix(prefix)
    except StoreError as error:
        raise UsageError(f"{scheme}://{parts.netloc}/{prefix[:200]}: {error}") from error
    return Address(parts.netloc, prefix, _settings(scheme, parts.query, settings))


def check_endpoint(endpoint: str) -> str:
    """The URL of a server, if it can be one.

    Raises:
        UsageError: it is not HTTP(S), or holds credentials, which are not repeated.
    """
    form = "endpoint_url is http(s)://HOST[:PORT], without credentials"
    parts = _split(endpoint, form)
    if parts.scheme not in ("http", "https") or not parts.hostname or parts.username is not None:
        raise UsageError(form)
    return endpoint.rstrip("/")


def _settings(scheme: str, query: str, names: Collection[str]) -> dict[str, str]:
    found: dict[str, str] = {}
    for name, value in parse_qsl(query, keep_blank_values=True):
        if name not in names:
            raise UsageError(f"{scheme}: URIs have no setting {name[:40]!r}; they have {', '.join(names)}")
        if name in found:
            raise UsageError(f"{scheme}: the setting {name} is given twice")
        if not value:
            raise UsageError(f"{scheme}: the setting {name} has no value; leave it out, or give one")
        found[name] = value
    if "endpoint_url" in found:
        check_endpoint(found["endpoint_url"])
    return found


def _split(uri: str, form: str) -> SplitResult:
    try:
        parts = urlsplit(uri)
        # Ports are looked at only when they are asked for.
        _ = parts.port
    except ValueError:
        raise UsageError(form) from None
    return parts
