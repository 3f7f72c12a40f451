"""JSON Schemas of agents' answers, in the strict form that providers take: every key required, none besides."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

_TEXT = {"type": "string"}
_UNIT = {"type": "number", "minimum": 0, "maximum": 1}
_SLOT = {"type": "string", "enum": ["first", "second", "tie"]}


def scored_schema(criteria: int) -> dict[str, Any]:
    """Of a verdict on one trial; `criteria` is how many are scored one by one."""
    fields: dict[str, Any] = {"reasoning": _TEXT, "score": _UNIT}
    if criteria:
        part = _strict({"score": _UNIT, "reasoning": _TEXT})
        fields["sub_scores"] = _strict({str(number): part for number in range(1, criteria + 1)})
    return _strict(fields)


def compared_schema(dimensions: Sequence[str]) -> dict[str, Any]:
    """Of a comparison of two trials."""
    fields: dict[str, Any] = {"reasoning": _TEXT, "preference": _SLOT, "strength": _UNIT}
    if dimensions:
        part = _strict({"preference": _SLOT, "reasoning": _TEXT})
        fields["dimensions"] = _strict(dict.fromkeys(dimensions, part))
    return _strict(fields)


def _strict(fields: Mapping[str, Any]) -> dict[str, Any]:
    return {"type": "object", "properties": dict(fields), "required": list(fields), "additionalProperties": False}
