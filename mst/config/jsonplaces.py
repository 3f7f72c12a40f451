"""Where each part of a JSON text stands. The text is known to be valid: the standard reader has already read it."""

from __future__ import annotations

import json
import re
from bisect import bisect_right
from dataclasses import dataclass

Keys = tuple[str | int, ...]

TOKEN = re.compile(r'"(?:[^"\\]|\\.)*"|[{}\[\],:]|[^\s{}\[\],:"]+')


@dataclass
class _Level:
    is_mapping: bool
    index: int = 0
    key: str | None = None


def marks(text: str) -> dict[Keys, tuple[int, int]]:
    """Line and column, from 1, of every value; of a mapping's entries the place of the key."""
    starts = [0, *(match.end() for match in re.finditer("\n", text))]
    found: dict[Keys, tuple[int, int]] = {}
    levels: list[_Level] = []
    for match in TOKEN.finditer(text):
        piece = match.group()
        if piece in "}]":
            levels.pop()
        elif piece == ",":
            levels[-1].index += 1
            levels[-1].key = None
        elif piece != ":":
            if levels and levels[-1].is_mapping and levels[-1].key is None:
                levels[-1].key = json.loads(piece)
            path = tuple(level.key if level.is_mapping else level.index for level in levels)
            line = bisect_right(starts, match.start())
            found.setdefault(
                tuple(part for part in path if part is not None), (line, match.start() - starts[line - 1] + 1)
            )
            if piece in "{[":
                levels.append(_Level(is_mapping=piece == "{"))
    return found
