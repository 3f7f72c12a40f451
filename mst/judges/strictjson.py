"""JSON from programs that nobody vouches for: plain values that can be written again, or a reason why not. Pure."""

from __future__ import annotations

import json
from typing import Any, NoReturn

MAX_DEPTH = 100


def loads(data: bytes | str) -> Any:
    """Parse JSON and make sure that it can be stored: no NaN or infinity, no lone surrogate, not nested absurdly deep.

    Raises:
        ValueError: with the reason, in words.
    """
    try:
        value = json.loads(data, parse_constant=_refuse)
        too_deep = _deeper(value, MAX_DEPTH)
    except RecursionError as error:
        raise ValueError("nested too deeply") from error
    except UnicodeDecodeError as error:
        raise ValueError("not UTF-8") from error
    except json.JSONDecodeError as error:
        raise ValueError(f"not JSON ({error.msg} at character {error.pos})") from error
    if too_deep:
        raise ValueError("nested too deeply")
    try:
        json.dumps(value, ensure_ascii=False).encode()
    except UnicodeEncodeError as error:
        raise ValueError("a text holds half of a surrogate pair") from error
    return value


def _refuse(constant: str) -> NoReturn:
    raise ValueError(f"{constant} is not a JSON number")


def _deeper(value: Any, levels: int) -> bool:
    if isinstance(value, dict):
        return levels == 0 or any(_deeper(item, levels - 1) for item in value.values())
    if isinstance(value, list):
        return levels == 0 or any(_deeper(item, levels - 1) for item in value)
    return False
