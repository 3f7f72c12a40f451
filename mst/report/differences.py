"""What differs between the variants: their resolved settings side by side, equal ones only counted."""

from __future__ import annotations

import json
import shlex
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from pydantic.alias_generators import to_snake

from mst.model.case import Variant
from mst.model.run import RunRecord, VariantRecord
from mst.report.text import clipped, one_line

VALUE_LIMIT = 2_000
NOT_SET = ""


@dataclass(frozen=True, slots=True)
class Difference:
    """One setting, and its value for each variant in the run's order; empty when not set."""

    setting: str
    values: list[str]


@dataclass(frozen=True, slots=True)
class Differences:
    """The settings that differ, and how many are the same in all variants."""

    rows: list[Difference]
    same: int


def differences(run: RunRecord) -> Differences:
    """Compare what was recorded of the variants. Credential-like values were replaced when the run was recorded."""
    flat = list(settings(run).values())
    names = list(dict.fromkeys(setting for values in flat for setting in values))
    rows = [Difference(setting, [values.get(setting, NOT_SET) for values in flat]) for setting in names]
    differing = [row for row in rows if len(set(row.values)) > 1]
    return Differences(rows=differing, same=len(rows) - len(differing))


def settings(run: RunRecord) -> dict[str, dict[str, str]]:
    """What was recorded of each variant, as dotted settings with their values as texts."""
    plans = {variant.name: variant for variant in run.plan.variants}
    return {variant.name: {**_recorded(variant), **_planned(plans.get(variant.name))} for variant in run.variants}


def _recorded(variant: VariantRecord) -> dict[str, str]:
    fields = variant.to_dict()
    for shown_elsewhere in ("name", "description", "servers"):
        fields.pop(shown_elsewhere, None)
    return flat(as_written(fields))


def _planned(variant: Variant | None) -> dict[str, str]:
    """Settings that the record leaves out or only names. Of environment variables only the names are shown."""
    if variant is None:
        return {}
    found = {f"files.{file.path}": f"sha256 {file.sha256[:12]}, {file.size:,} bytes" for file in variant.files}
    if variant.env:
        found["env (names)"] = ", ".join(sorted(variant.env))
    limits = as_written(variant.trial_limits.to_dict())
    found.update(flat({"servers": variant.servers, "sandbox": variant.sandbox, "trial_limits": limits}))
    return {one_line(setting): value for setting, value in found.items()}


def as_written(fields: Mapping[str, Any]) -> dict[str, Any]:
    """Fields of a record under the names that they have in an eval config. What is inside them is not touched."""
    return {to_snake(name): value for name, value in fields.items()}


def flat(value: Any, path: str = "") -> dict[str, str]:
    """Maps opened into dotted settings; anything else as one value."""
    if isinstance(value, dict) and value:
        found: dict[str, str] = {}
        for name, inner in value.items():
            found.update(flat(inner, f"{path}.{name}" if path else str(name)))
        return found
    return {one_line(path): clipped(_written(value), limit=VALUE_LIMIT)}


def _written(value: Any) -> str:
    """A value as people write it: a list of words like a command line, files by name, anything else as JSON."""
    if isinstance(value, str):
        return value
    if isinstance(value, list) and value and all(_is_file(item) for item in value):
        return ", ".join(f"{item['path']} (sha256 {item['sha256'][:12]})" for item in value)
    if isinstance(value, list) and value and all(isinstance(item, str) for item in value):
        return shlex.join(value)
    return json.dumps(value, ensure_ascii=False)


def _is_file(value: Any) -> bool:
    return isinstance(value, dict) and {"path", "sha256"} <= value.keys()
