"""Units that took their worker down twice: they are given up with a record that says so, and the rest goes on."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path

from mst.config.files import write_atomic
from mst.model.shard import UnitKey, unit_name

POISONED = "poisoned.json"
CRASHED_TWICE = "crashed the worker twice"


def read_poisoned(results: Path) -> frozenset[str]:
    """The units that a worker must not start, by unit name."""
    try:
        return frozenset(json.loads((results / POISONED).read_text()))
    except FileNotFoundError:
        return frozenset()


def write_poisoned(results: Path, keys: Iterable[UnitKey]) -> None:
    """Tell the next attempt which units not to start."""
    write_atomic(results / POISONED, json.dumps(sorted(unit_name(key) for key in keys)).encode())
