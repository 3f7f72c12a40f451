"""Text files that people write, as plain data with the places of every part: YAML, JSON and TOML."""

from __future__ import annotations

import difflib
import json
import math
import re
import tomllib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import date, time
from functools import lru_cache
from pathlib import Path
from typing import Any

from pydantic.alias_generators import to_snake

from mst.config import jsonplaces, tomlplaces, yamltext
from mst.errors import ConfigError

MAX_BYTES = 10 * 1024 * 1024
NOT_UTF8 = "not UTF-8 text; save the file as UTF-8"
MAX_DEPTH = 100
SAFE_INTEGER = 2**53 - 1
"""Larger integers lose digits in most JSON readers, and canonical JSON refuses them."""

PLACE = re.compile(r"(.+?):(\d+): ")

Keys = tuple[str | int, ...]
Mark = tuple[int, int]
"""Line and column, from 1."""


@dataclass(frozen=True)
class Source:
    """One file's data and where each part of it stands.

    Attributes:
        name: how the file is called in messages: the path as it was given.
        data: plain JSON types; keys as written.
        marks: line and column by path of keys; mapping keys count in snake_case, so that both spellings are found.
    """

    path: Path
    name: str
    data: Any
    marks: Mapping[Keys, Mark] = field(repr=False)

    def place(self, keys: Iterable[str | int] = ()) -> str:
        """`eval.yaml:12` for a part of the data, or for the nearest part around it that has a place."""
        path = snaked(keys)
        while path and path not in self.marks:
            path = path[:-1]
        mark = self.marks.get(path)
        return f"{self.name}:{mark[0]}" if mark else self.name

    def has(self, keys: Iterable[str | int]) -> bool:
        """Whether this very part has a place, not only something around it."""
        return snaked(keys) in self.marks

    def with_places(self, of: Keys, below: Keys) -> Source:
        """The same with the places of one part also below another, where that has none of its own."""
        taken = {(*below, *keys[len(of) :]): mark for keys, mark in self.marks.items() if keys[: len(of)] == of}
        return replace(self, marks={**taken, **self.marks})

    def fault(self, keys: Iterable[str | int], message: str) -> str:
        """One line: place, path of keys, message."""
        keys = tuple(keys)
        return f"{self.place(keys)}: {dotted(keys)}: {message}" if keys else f"{self.place()}: {message}"


def snaked(keys: Iterable[str | int]) -> Keys:
    """A path of keys with its mapping keys in snake_case."""
    return tuple(snake(key) if isinstance(key, str) else key for key in keys)


snake = lru_cache(maxsize=2048)(to_snake)
"""The same few keys come again in every case."""


def dotted(keys: Iterable[str | int]) -> str:
    """`judges[0].threshold`."""
    text = ""
    for key in keys:
        text += f"[{key}]" if isinstance(key, int) else f".{key}" if text else key
    return text


def in_order(faults: Iterable[str]) -> list[str]:
    """Faults without repeats: files as they first come, and within a file by line."""
    files: dict[str, int] = {}

    def rank(fault: str) -> tuple[int, int]:
        match = PLACE.match(fault)
        name, line = (match[1], int(match[2])) if match else (fault, 0)
        return files.setdefault(name, len(files)), line

    return sorted(dict.fromkeys(faults), key=rank)


def nearest(word: str, known: Iterable[str]) -> str:
    """` (did you mean 'assertions'?)`: what begins so, else what is spelt nearly so; an empty text when nothing is."""
    names = list(known)
    begun = [name for name in names if len(word) > 2 and name.startswith(word)]
    found = begun or difflib.get_close_matches(word, names, n=1, cutoff=0.6)
    return f" (did you mean {found[0]!r}?)" if found else ""


def read(path: Path, *, name: str | None = None) -> Source:
    """Read a `.yaml`, `.yml`, `.json` or `.toml` file of at most 10 MB.

    Only plain JSON types come out: dates stay as written, and what JSON cannot hold is a fault.

    Raises:
        ConfigError: missing, unreadable, too large, not UTF-8, bad syntax, or a key given twice; with the place.
    """
    name = name or str(path)
    reader = READERS.get(path.suffix.lower())
    if reader is None:
        raise ConfigError(f"{name}: expected a .yaml, .yml, .json or .toml file")
    text = read_text(path, name=name)
    data, marks, faults = reader(text, name)
    faults = [*faults, *(f"{_at(name, marks, keys)}: {message}" for keys, message in unfit(data))]
    if faults:
        raise ConfigError(*faults)
    return Source(path=path, name=name, data=data, marks={snaked(keys): mark for keys, mark in marks.items()})


def read_text(path: Path, *, name: str, max_bytes: int = MAX_BYTES) -> str:
    """A text file, bounded.

    Raises:
        ConfigError: missing, not a file, too large or not UTF-8.
    """
    try:
        with path.open("rb") as stream:
            content = stream.read(max_bytes + 1)
    except FileNotFoundError:
        raise ConfigError(f"{name}: no such file") from None
    except OSError as error:
        raise ConfigError(f"{name}: cannot be read: {error.strerror}") from error
    if len(content) > max_bytes:
        raise ConfigError(f"{name}: larger than {max_bytes // (1024 * 1024)} MB, the limit for this kind of file")
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = content[: error.start].count(b"\n") + 1
        raise ConfigError(f"{name}:{line}: {NOT_UTF8}") from error


def unfit(data: Any) -> list[tuple[Keys, str]]:
    """What of plain data JSON cannot hold exactly: infinities, integers beyond 2^53, lone surrogates, deep nesting."""
    found: list[tuple[Keys, str]] = []
    stack: list[tuple[Keys, Any]] = [((), data)]
    while stack:
        keys, value = stack.pop()
        if len(keys) > MAX_DEPTH:
            found.append((keys[:3], f"nested more than {MAX_DEPTH} levels deep"))
        elif isinstance(value, dict):
            stack.extend(((*keys, key), item) for key, item in value.items())
        elif isinstance(value, list):
            stack.extend(((*keys, index), item) for index, item in enumerate(value))
        elif (message := _unfit_scalar(value)) is not None:
            found.append((keys, message))
    return found[::-1]


def _unfit_scalar(value: Any) -> str | None:
    if isinstance(value, str):
        broken = not value.isascii() and _SURROGATE.search(value)
        return "half of a surrogate pair is not a character" if broken else None
    if isinstance(value, float) and not math.isfinite(value):
        return "infinities and NaN are not supported"
    if isinstance(value, int) and not isinstance(value, bool) and abs(value) > SAFE_INTEGER:
        return "integers beyond 2^53 lose digits; write it as a quoted text"
    return None


_SURROGATE = re.compile("[\ud800-\udfff]")


def _at(name: str, marks: Mapping[Keys, Mark], keys: Keys) -> str:
    while keys and keys not in marks:
        keys = keys[:-1]
    return f"{name}:{marks[keys][0]}" if keys in marks else name


Reading = tuple[Any, dict[Keys, Mark], list[str]]


def _read_json(text: str, name: str) -> Reading:
    twice: list[str] = []

    def once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        result: dict[str, Any] = {}
        for key, value in pairs:
            if key in result:
                twice.append(key)
            result[key] = value
        return result

    try:
        data = json.loads(text, object_pairs_hook=once)
    except json.JSONDecodeError as error:
        raise ConfigError(f"{name}:{error.lineno}: not valid JSON: {error.msg} (column {error.colno})") from None
    except RecursionError:
        raise ConfigError(f"{name}: nested more than {MAX_DEPTH} levels deep") from None
    except ValueError as error:
        raise ConfigError(f"{name}: not valid JSON: {error}") from None
    return data, jsonplaces.marks(text), [f"{name}: key {key!r} is given twice" for key in twice]


def _read_toml(text: str, name: str) -> Reading:
    try:
        data = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        line = re.search(r"at line (\d+)", str(error))
        place = f"{name}:{line[1]}" if line else name
        raise ConfigError(f"{place}: not valid TOML: {error}") from None
    except RecursionError:
        raise ConfigError(f"{name}: nested more than {MAX_DEPTH} levels deep") from None
    return _undated(data), tomlplaces.marks(text), []


def _undated(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _undated(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_undated(item) for item in value]
    return value.isoformat() if isinstance(value, date | time) else value


def _read_yaml(text: str, name: str) -> Reading:
    return yamltext.read(text, name, max_depth=MAX_DEPTH)


READERS: dict[str, Callable[[str, str], Reading]] = {
    ".yaml": _read_yaml,
    ".yml": _read_yaml,
    ".json": _read_json,
    ".toml": _read_toml,
}
