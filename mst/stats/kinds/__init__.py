"""Every statistic by name, from JSON to JSON: what `mst stats KIND --json INPUTS` computes.

Undefined values are null, and `undefined` in the result says why, by the path of the value. Handlers of one subject are
in one module, loaded with the first use of one of its kinds.
"""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from typing import Any

from mst.errors import UsageError
from mst.stats.kinds.registry import Inputs, Kind, render

_MODULES = ("estimates", "comparing", "judging", "planning", "verdicts")


def describe() -> list[dict[str, Any]]:
    """All kinds, by name: `{kind, about, inputs: {field: meaning}}`; optional fields end in `?`."""
    return [
        {"kind": kind.name, "about": kind.about, "inputs": dict(kind.fields)}
        for kind in sorted(_kinds().values(), key=lambda kind: kind.name)
    ]


def compute(kind: str, inputs: Mapping[str, Any]) -> dict[str, Any]:
    """Compute one kind.

    Args:
        kind: a name that `describe` lists.
        inputs: its fields, as parsed JSON.

    Returns:
        Plain JSON types. `undefined` is there only if a value is null: path of the value -> reason.

    Raises:
        UsageError: an unknown kind, or a field that is missing, unknown or unfit; the message names it.
    """
    known = _kinds()
    if kind not in known:
        raise UsageError(f"unknown kind {kind!r}; kinds: {', '.join(sorted(known))}")
    chosen = known[kind]
    result: dict[str, Any] = render(chosen.compute(Inputs(chosen, inputs)))
    return result


def _kinds() -> dict[str, Kind]:
    tables: list[dict[str, Kind]] = [import_module(f"{__name__}.{name}").KINDS for name in _MODULES]
    return {name: kind for table in tables for name, kind in table.items()}
