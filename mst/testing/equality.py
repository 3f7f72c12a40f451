"""Whether two gradings of the same stored run are the same, byte for byte, apart from what may differ."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

ANYWHERE = frozenset({"runId", "createdAt", "finishedAt", "timestamp", "judgeDurationMs", "previousRun"})
"""Fields that may differ wherever they stand."""
PLACES = frozenset({("run.json", "grading", "runner"), ("summary.json", "durationMs")})
"""Fields that may differ in one place: file, then the way to the field."""
DERIVED = ("report", ".lock", ".work", ".dispatch", "authors.jsonl")
"""Made from the rest, no part of a finished run, or about where it ran."""


def differences(one: Path, other: Path) -> list[str]:
    """What differs between two run folders, a line each with file and place; empty when they are equal."""
    names, others = set(_files(one)), set(_files(other))
    found = [f"{name}: only in {one.name}" for name in sorted(names - others)]
    found += [f"{name}: only in {other.name}" for name in sorted(others - names)]
    for name in sorted(names & others):
        found += _file(name, (one / name).read_bytes(), (other / name).read_bytes())
    return found


def _files(run: Path) -> Iterator[str]:
    for path in run.rglob("*"):
        relative = path.relative_to(run)
        if path.is_file() and relative.parts[0] not in DERIVED:
            yield relative.as_posix()


def _file(name: str, one: bytes, other: bytes) -> list[str]:
    if one == other:
        return []
    if not name.endswith(".json"):
        return [f"{name}: other bytes"]
    left, right = (_without(json.loads(data), (name,)) for data in (one, other))
    # dumped again rather than compared as mappings: the order of keys, and 1 beside 1.0, count too
    if json.dumps(left) == json.dumps(right):
        return []
    return [f"{name}: {place}" for place in _places(left, right, "")] or [f"{name}: another order of keys"]


def _without(value: Any, place: tuple[str, ...]) -> Any:
    if isinstance(value, dict):
        return {
            key: "(may differ)" if key in ANYWHERE or (*place, key) in PLACES else _without(item, (*place, key))
            for key, item in value.items()
        }
    if isinstance(value, list):
        return [_without(item, (*place, "[]")) for item in value]
    return value


def _places(left: Any, right: Any, place: str) -> Iterator[str]:
    if isinstance(left, dict) and isinstance(right, dict):
        for key in sorted(set(left) | set(right)):
            yield from _places(left.get(key, "(absent)"), right.get(key, "(absent)"), f"{place}.{key}")
    elif isinstance(left, list) and isinstance(right, list) and len(left) == len(right):
        for number, pair in enumerate(zip(left, right, strict=True)):
            yield from _places(*pair, f"{place}[{number}]")
    elif json.dumps(left) != json.dumps(right):
        yield f"{place or '.'}: {_short(left)} / {_short(right)}"


def _short(value: Any) -> str:
    text = json.dumps(value)
    return text if len(text) <= 120 else text[:120] + "..."
