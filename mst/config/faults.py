"""Faults that a schema finds, as people say them: each with its place, and the branches of a union as one."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from pydantic import ValidationError

from mst.config.source import Keys, Source

WANTED = {
    "string_type": "a text",
    "bool_type": "true or false",
    "int_type": "a whole number",
    "int_parsing": "a whole number",
    "int_from_float": "a whole number",
    "float_type": "a number",
    "float_parsing": "a number",
    "list_type": "a list",
    "dict_type": "a mapping",
    "model_type": "a mapping",
    "model_attributes_type": "a mapping",
}
"""What a value should be, by the kind of a fault that says that it is something else."""


@dataclass(frozen=True)
class _Fault:
    """A fault at its place in what was written; `union` is where it tried one of several forms, if it did."""

    place: Keys
    union: Keys | None
    found: Mapping[str, Any]

    def is_of_type(self) -> bool:
        """Whether the value is something else altogether."""
        return self.found["type"] in WANTED


def pydantic_faults(
    error: ValidationError, data: Any, source: Source, keys: Keys = (), *, whole: bool = True, main: str = ""
) -> list[str]:
    """One line for each fault, with its place; values are not repeated, since they may be secret.

    Args:
        error: what the schema said.
        data: what it was asked about.
        source: where that was written.
        keys: the place of the data there.
        whole: false leaves out faults of the data as a whole.
        main: the option that a bare value was written for, which is named nowhere in the source.
    """
    faults = [_placed(found, data) for found in error.errors(include_url=False)]
    lines = []
    for place, said in _together(faults):
        if place or whole:
            shown = place[1:] if main and place[:1] == (main,) else place
            lines.append(source.fault((*keys, *shown), said))
    return lines


def in_words(found: Mapping[str, Any]) -> str:
    """A schema's fault as people say it."""
    kind = found["type"]
    if kind == "missing":
        return "missing"
    if kind == "extra_forbidden":
        return "unknown key"
    if kind == "too_short" and found["ctx"]["min_length"] == 1:
        return "should not be empty"
    if kind in WANTED:
        return _should_be([WANTED[kind]], found.get("input"))
    return str(found["msg"]).removeprefix("Value error, ").removeprefix("Input ")


def _placed(found: Any, data: Any) -> _Fault:
    """Where a fault is. A schema's path also names the branches of unions, which nobody wrote."""
    place: list[str | int] = []
    union: Keys | None = None
    inside = data
    last = len(found["loc"]) - 1
    for number, part in enumerate(found["loc"]):
        if _has(inside, part):
            inside = inside[part]
            place.append(part)
        elif number == last and found["type"] == "missing":
            place.append(part)
        elif union is None:
            union = tuple(place)
    return _Fault(place=tuple(place), union=union, found=found)


def _has(value: Any, part: str | int) -> bool:
    if isinstance(value, list):
        return isinstance(part, int) and part < len(value)
    return isinstance(value, dict) and part in value


def _together(faults: list[_Fault]) -> Iterator[tuple[Keys, str]]:
    """Faults by place. Of a union, what is wrong inside one form explains more than that it is not another form."""
    deeper = {fault.union for fault in faults if fault.union is not None and len(fault.place) > len(fault.union)}
    told: set[Keys] = set()
    for fault in faults:
        if not (fault.union == fault.place and fault.is_of_type()):
            yield fault.place, in_words(fault.found)
        elif fault.place not in told and fault.place not in deeper:
            told.add(fault.place)
            yield fault.place, _should_be(_forms(faults, fault.place), fault.found.get("input"))


def _forms(faults: Iterable[_Fault], union: Keys) -> list[str]:
    return [WANTED[one.found["type"]] for one in faults if one.place == one.union == union and one.is_of_type()]


def _should_be(forms: Iterable[str], found: Any) -> str:
    *others, last = dict.fromkeys(forms)
    return f"should be {', '.join(others)} or {last}, not {_called(found)}" if others else (
        f"should be {last}, not {_called(found)}"
    )  # fmt: skip


def _called(value: Any) -> str:
    if value is None:
        return "empty"
    if isinstance(value, bool):
        return "true or false"
    if isinstance(value, float):
        return "a fraction" if value % 1 else "a number with a point"
    if isinstance(value, int):
        return "a number"
    return "a text" if isinstance(value, str) else "a list" if isinstance(value, list) else "a mapping"
