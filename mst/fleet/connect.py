"""One way to reach Redis: the client, its time limits, and its errors as ours."""

from __future__ import annotations

import ssl
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeAlias
from urllib.parse import SplitResult, parse_qsl, quote, unquote, urlsplit

from mst.errors import BrokerError, UsageError
from mst.fleet.extras import need

RedisClient: TypeAlias = Any
"""A `redis.Redis` with decoded replies. The library is optional, and its types promise awaitables that never come."""

BROKER_ENV = "MST_BROKER_URL"
CONNECT_S = 10.0
ANSWER_S = 5.0
"""Redis answers in milliseconds. Longer silence is no answer: whoever asked goes on without, and asks again later."""
TLS_FILES = ("ssl_ca_certs", "ssl_certfile", "ssl_keyfile")
"""Of a `rediss://` URL's query: the authority to trust, and a certificate of the client's own."""
SOCKET_SCHEME = "redis+socket"


def socket_url(path: str, password: str) -> str:
    """The URL of a broker on a Unix socket. The password goes before the path: in a query Celery ignores it."""
    return f"{SOCKET_SCHEME}://:{quote(password, safe='')}@{path}"


def check_url(url: str) -> str:
    """The URL itself, if it is one that Celery and our own client both understand.

    Raises:
        UsageError: another scheme, or no host or path.
    """
    parts = urlsplit(url)
    if parts.scheme == SOCKET_SCHEME and len(parts.path) > 1:
        return url
    if parts.scheme in {"redis", "rediss"} and parts.hostname:
        _check_tls(parts)
        return url
    known = f"redis://, rediss:// or {SOCKET_SCHEME}://:PASSWORD@/path"
    raise UsageError(f"broker {without_password(url)!r}: give {known} (in {BROKER_ENV})")


def tls_options(url: str) -> dict[str, Any]:
    """What Celery needs for a `rediss://` URL, so that it looks at certificate and name; empty for other schemes."""
    parts = urlsplit(url)
    if parts.scheme != "rediss":
        return {}
    named = dict(parse_qsl(parts.query))
    given = {name: named[name] for name in TLS_FILES if name in named}
    return {"ssl_cert_reqs": ssl.CERT_REQUIRED, "ssl_check_hostname": True, **given}


def _check_tls(parts: SplitResult) -> None:
    named = dict(parse_qsl(parts.query))
    weak = named.get("ssl_cert_reqs", "required") != "required" or named.get("ssl_check_hostname", "true") != "true"
    if parts.scheme == "rediss" and weak:
        raise UsageError(
            f"{BROKER_ENV}: TLS without looking at the certificate protects nothing; leave ssl_cert_reqs and "
            "ssl_check_hostname out, and name the authority's file with ssl_ca_certs=/path/ca.pem"
        )
    for name in TLS_FILES:
        if name in named and not Path(named[name]).is_file():
            raise UsageError(f"{BROKER_ENV}: {name}: no such file: {named[name]}")


def without_password(url: str) -> str:
    """A broker URL as it may be shown and recorded: user name, password and query are left out."""
    parts = urlsplit(url)
    place = parts.netloc.rpartition("@")[2]
    return f"{parts.scheme}://{place}{parts.path}" if parts.scheme else "(not a URL)"


def is_loopback(url: str) -> bool:
    """Whether the broker can only be reached from this machine."""
    parts = urlsplit(url)
    return parts.scheme == SOCKET_SCHEME or parts.hostname in {"localhost", "127.0.0.1", "::1"}


def connect(url: str, *, answer_s: float = ANSWER_S) -> RedisClient:
    """A thread-safe client; nothing is sent until it is used.

    A dropped connection is made again at once. Silence is not met by asking again: a broker that takes connections and
    answers nothing would hold each call for many times `answer_s`.

    Raises:
        UsageError: a URL of another kind, or the library is not installed.
    """
    redis = need("redis")
    parts = urlsplit(check_url(url))
    common = {
        "decode_responses": True,
        "socket_timeout": answer_s,
        "health_check_interval": 25,
        "client_name": "mst",
        "protocol": 2,
        # Every move is safe to repeat, so a dropped connection costs one retry and not the shard.
        "retry": need("redis.retry").Retry(
            need("redis.backoff").ExponentialBackoff(cap=1, base=0.05), 2, supported_errors=(redis.ConnectionError,)
        ),
    }
    if parts.scheme == SOCKET_SCHEME:
        user, password = (unquote(one) if one else None for one in (parts.username, parts.password))
        return redis.Redis(unix_socket_path=unquote(parts.path), username=user, password=password, **common)
    return redis.Redis.from_url(url, socket_connect_timeout=CONNECT_S, socket_keepalive=True, **common)


@contextmanager
def broker_errors(doing: str) -> Iterator[None]:
    """Turn the library's errors into ours; the text says what was being done.

    Raises:
        BrokerError: instead of any error of the library.
    """
    redis = need("redis")
    try:
        yield
    except redis.AuthenticationError as error:
        raise BrokerError(f"{doing}: the broker refused the password") from error
    except (redis.ConnectionError, redis.TimeoutError) as error:
        if "CERTIFICATE_VERIFY_FAILED" in str(error):
            raise BrokerError(
                f"{doing}: the broker's certificate is of an authority that is not trusted here; name the authority's "
                f"file in {BROKER_ENV}: rediss://...?ssl_ca_certs=/path/ca.pem"
            ) from error
        fix = f"start it, or mend {BROKER_ENV} ('mst doctor' asks it)"
        raise BrokerError(f"{doing}: the broker does not answer; {fix}") from error
    except redis.RedisError as error:
        raise BrokerError(f"{doing}: the broker refused: {error}") from error
