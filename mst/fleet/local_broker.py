"""A broker that stays, on this machine: for a Procfile, a small fleet, or the first look at one."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import NoReturn
from urllib.parse import unquote, urlsplit

from mst.errors import UsageError
from mst.fleet.connect import BROKER_ENV, SOCKET_SCHEME, check_url, is_loopback, without_password
from mst.fleet.embedded import find_server


def run_local_broker(url: str, folder: Path, environment: Mapping[str, str] | None = None) -> NoReturn:
    """Become the broker that a URL names; this process is then the server's.

    What it took is durable: an append-only file lies in `folder` (made with 0700 if missing; one that is there keeps
    its rights). Files are readable for this user only.

    Raises:
        UsageError: the URL names another machine, asks for TLS or a user, or no server program is installed.
    """
    program = find_server(environment)
    text = configuration(url, folder.absolute())
    os.umask(0o077)
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    path = folder / "broker.conf"
    # it holds the password, so an older file's rights are not taken over
    path.unlink(missing_ok=True)
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "w") as sink:
        sink.write(text)
    os.execv(program, [str(program), str(path)])  # noqa: S606 - a program of ours, no shell


def configuration(url: str, folder: Path) -> str:
    """The server's configuration file.

    Raises:
        UsageError: see `run_local_broker`.
    """
    parts = urlsplit(check_url(url))
    place = without_password(url)
    if not is_loopback(url) or parts.scheme == "rediss":
        raise UsageError(
            f"{BROKER_ENV} names {place}: a broker is started here for redis://...@127.0.0.1:PORT and "
            f"{SOCKET_SCHEME}://...@/path only; start the others alone: honcho start worker flower autoscaler"
        )
    if parts.username not in (None, "", "default"):
        raise UsageError(f"{BROKER_ENV}: a broker started here has no user {parts.username!r}; leave the name out")
    if parts.scheme == SOCKET_SCHEME:
        where = ["port 0", f"unixsocket {_quoted(unquote(parts.path))}", "unixsocketperm 700"]
    else:
        where = [f"bind {'::1' if parts.hostname == '::1' else '127.0.0.1'}", f"port {parts.port or 6379}"]
    password = [f"requirepass {_quoted(unquote(parts.password))}"] if parts.password else []
    return "\n".join(
        [
            *where,
            *password,
            f"dir {_quoted(str(folder))}",
            "appendonly yes",
            'save ""',
            "maxmemory-policy noeviction",
            "",
        ]
    )


def _quoted(text: str) -> str:
    if any(ord(one) < ord(" ") for one in text):
        raise UsageError(f"{BROKER_ENV}: control characters in path or password")
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'
