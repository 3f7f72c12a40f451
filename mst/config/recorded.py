"""Options as they may be recorded: what looks like a credential is replaced by a keyed hash."""

from __future__ import annotations

import hashlib
import hmac
import re
import secrets
from collections.abc import Collection, Iterator
from itertools import pairwise
from typing import Any

from pydantic.alias_generators import to_snake

Keys = tuple[str | int, ...]

WORDS = frozenset(
    {
        "password",
        "passwd",
        "passphrase",
        "secret",
        "credential",
        "credentials",
        "authorization",
        "cookie",
        "apikey",
        "token",
        "bearer",
    }
)
PAIRS = frozenset(
    {("api", "key"), ("private", "key"), ("access", "key"), ("secret", "key"), ("signing", "key"), ("auth", "key")}
)
"""Parts of a key that say that its value is a credential."""
SHAPES = re.compile(
    r"""
    \b(?:sk|pk|rk)[-_](?:live|test|ant|proj|or)?[-_]?[A-Za-z0-9_-]{16,}   # keys of model and payment providers
    | \bgh[opsur]_[A-Za-z0-9]{20,} | \bgithub_pat_[A-Za-z0-9_]{20,}
    | \bglpat-[A-Za-z0-9_-]{16,}
    | \bxox[abeoprs]-[A-Za-z0-9-]{10,}
    | \b(?:AKIA|ASIA)[A-Z0-9]{16}\b
    | \bAIza[A-Za-z0-9_-]{30,}
    | \beyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]*          # signed tokens
    | \bAGE-SECRET-KEY-1[A-Z0-9]{20,}
    | -----BEGIN\ [A-Z ]*PRIVATE\ KEY-----
    | \b(?:[Bb]earer|[Bb]asic)\s+[A-Za-z0-9+/_=.~-]{12,}
    | \b[a-z][a-z0-9+.-]*://[^/\s@:]*:[^/\s@]+@                          # a password in a URL
    | [?&](?:access_token|token|key|api_key|apikey|sig|signature|password)=[^&\s]{6,}
    """,
    re.VERBOSE,
)


def new_key() -> str:
    """A fresh key for one run's hashes, 64 hex digits. A regrade takes its source's."""
    return secrets.token_hex(32)


def conceal(value: Any, key: str) -> Any:
    """Plain data with every text that looks like a credential replaced by `hmac:<16 hex digits>`.

    Equal values give equal hashes under one key, so that a change can be seen. `{secret: NAME}` and lists of secret
    names stay: a name is no secret.

    Args:
        value: plain JSON types.
        key: the run's key; see `new_key`.
    """
    return _conceal(value, bytes.fromhex(key), is_credential=False)


def credential_paths(value: Any, *, names: Collection[str] = ()) -> list[Keys]:
    """Where plain data holds what looks like a credential; not the names of secrets, which stand in some options."""
    return list(_paths(value, (), frozenset(names), is_credential=False))


def _conceal(value: Any, key: bytes, *, is_credential: bool) -> Any:
    if isinstance(value, dict):
        if _is_reference(value):
            return value
        return {name: _conceal(item, key, is_credential=_names_credential(name)) for name, item in value.items()}
    if isinstance(value, list):
        return [_conceal(item, key, is_credential=is_credential) for item in value]
    if isinstance(value, str) and _looks_secret(value, is_credential=is_credential):
        return f"hmac:{hmac.new(key, value.encode(), hashlib.sha256).hexdigest()[:16]}"
    return value


def _paths(value: Any, keys: Keys, names: frozenset[str], *, is_credential: bool) -> Iterator[Keys]:
    if isinstance(value, dict) and not _is_reference(value):
        for name, item in value.items():
            yield from _paths(item, (*keys, name), names, is_credential=_names_credential(name))
    elif isinstance(value, list):
        for index, item in enumerate(value):
            yield from _paths(item, (*keys, index), names, is_credential=is_credential)
    elif isinstance(value, str) and value not in names and _looks_secret(value, is_credential=is_credential):
        yield keys


def _is_reference(value: dict[str, Any]) -> bool:
    return set(value) == {"secret"} and isinstance(value["secret"], str)


def _looks_secret(text: str, *, is_credential: bool) -> bool:
    return bool(text) and (is_credential or SHAPES.search(text) is not None)


def _names_credential(name: str) -> bool:
    words = [word for word in re.split(r"[^a-z0-9]+", to_snake(name)) if word]
    return bool(WORDS.intersection(words)) or any(pair in PAIRS for pair in pairwise(words))
