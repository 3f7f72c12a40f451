"""JSON from programs that nobody vouches for: plain values that can be written again, or a reason why not. Pure."""

from __future__ import annotations

import json
import math
from typing import Any

MAX_DEPTH = 100
MAX_INTEGER = 2**53 - 1
"""Larger whole numbers have no canonical JSON (RFC 8785), which digests are made over."""


def loads(data: bytes | str) -> Any:
    """Parse JSON and make sure that it can be stored and digested.

    Refused: NaN and infinity, whole numbers beyond 2^53, half surrogate pairs, more than 100 levels, a key that stands
    twice in one object: which of two scores is meant nobody can say.

    Raises:
        ValueError: with the reason, in words.
    """
    try:
        value = json.loads(data, object_pairs_hook=_once)
    except RecursionError as error:
        raise ValueError("nested too deeply") from error
    except UnicodeDecodeError as error:
        raise ValueError("not UTF-8") from error
    except json.JSONDecodeError as error:
        raise ValueError(f"not JSON ({error.msg} at character {error.pos})") from error
    check(value)
    return value


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        raise ValueError(f"ambiguous: the key {twice[:100]!r} stands twice in one object")
    return found


def check(value: Any) -> None:
    """Make sure that plain values can be stored and digested; values of other types are not looked at.

    Raises:
        ValueError: see `loads`.
    """
    try:
        _check(value, MAX_DEPTH)
    except UnicodeEncodeError as error:
        raise ValueError("a text with half of a surrogate pair") from error


def _check(value: Any, levels: int) -> None:
    if isinstance(value, dict | list):
        if levels == 0:
            raise ValueError("nested too deeply")
        for item in value.values() if isinstance(value, dict) else value:
            _check(item, levels - 1)
        if isinstance(value, dict):
            "".join(map(str, value)).encode()
    elif isinstance(value, str):
        value.encode()
    elif isinstance(value, float) and not math.isfinite(value):
        raise ValueError("a number that is not finite")
    elif isinstance(value, int) and abs(value) > MAX_INTEGER:
        raise ValueError("a whole number beyond 2^53")
