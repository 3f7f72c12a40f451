"""Where the tables and keys of a TOML text stand. Keys inside inline tables get the place of the line's first key."""

from __future__ import annotations

import re
import tomllib
from collections import Counter
from typing import Any

Keys = tuple[str | int, ...]

PART = r"""(?:[A-Za-z0-9_-]+|"(?:[^"\\\n]|\\.)*"|'[^'\n]*')"""
NAME = rf"{PART}(?:\s*\.\s*{PART})*"
TABLE = re.compile(rf"^\s*(\[\[?)\s*({NAME})\s*\]\]?\s*(?:#.*)?$")
ENTRY = re.compile(rf"^\s*({NAME})\s*=")
FENCES = ('"""', "'''")


def marks(text: str) -> dict[Keys, tuple[int, int]]:
    """Line and column, from 1, of tables and keys."""
    found: dict[Keys, tuple[int, int]] = {}
    counts: Counter[Keys] = Counter()
    table: Keys = ()
    fence: str | None = None
    for number, line in enumerate(text.split("\n"), start=1):
        if fence is not None:
            fence = None if fence in line else fence
            continue
        if header := TABLE.match(line):
            table = _numbered(_parts(header[2]), counts, is_array=header[1] == "[[")
            found.setdefault(table, (number, header.start(2) + 1))
        elif entry := ENTRY.match(line):
            found.setdefault((*table, *_parts(entry[1])), (number, entry.start(1) + 1))
            fence = next((mark for mark in FENCES if line.count(mark) % 2), None)
    return found


def _parts(name: str) -> Keys:
    # The TOML reader itself takes quoted names apart.
    parts: list[str | int] = []
    value: Any = tomllib.loads(f"{name} = 0")
    while isinstance(value, dict):
        key, value = next(iter(value.items()))
        parts.append(key)
    return tuple(parts)


def _numbered(name: Keys, counts: Counter[Keys], *, is_array: bool) -> Keys:
    path: Keys = ()
    for position, part in enumerate(name):
        path = (*path, part)
        last = position == len(name) - 1
        if last and is_array:
            counts[path] += 1
        if counts[path]:
            path = (*path, counts[path] - 1)
    return path
