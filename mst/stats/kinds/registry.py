"""How a kind is declared, how its inputs are checked, and how its result becomes JSON."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from mst.errors import UsageError
from mst.stats.intervals import Interval

MAX_ITEMS = 1_000_000

Result = dict[str, Any]
Label = str | int | float | bool
Choice = TypeVar("Choice", bound=str)


@dataclass(frozen=True, slots=True)
class Undefined:
    """A value that does not exist, and why."""

    reason: str


@dataclass(frozen=True, slots=True)
class Kind:
    """One statistic by name.

    Attributes:
        about: what it computes, for `mst stats`.
        fields: input -> meaning; a name that ends in `?` is optional.
    """

    name: str
    about: str
    fields: Mapping[str, str]
    compute: Callable[[Inputs], Result]


class Table(dict[str, Kind]):
    """The kinds of one module."""

    def add(
        self, name: str, about: str, **fields: str
    ) -> Callable[[Callable[[Inputs], Result]], Callable[[Inputs], Result]]:
        """Declare the decorated function as a kind. A field name that ends in `_opt` is optional."""
        named = {
            (f"{key.removesuffix('_opt')}?" if key.endswith("_opt") else key): text for key, text in fields.items()
        }

        def register(compute: Callable[[Inputs], Result]) -> Callable[[Inputs], Result]:
            self[name] = Kind(name, about, named, compute)
            return compute

        return register


def render(value: Any) -> Any:
    """Plain JSON of a handler's result: intervals become lists, undefined values null with their reasons listed."""
    reasons: dict[str, str] = {}
    plain = _plain(value, "", reasons)
    if reasons:
        plain["undefined"] = reasons
    return plain


def _plain(value: Any, path: str, reasons: dict[str, str]) -> Any:
    if isinstance(value, Undefined):
        reasons[path] = value.reason
        return None
    if isinstance(value, Interval):
        if value.low is None:
            reasons[path] = value.reason
            return None
        return [value.low, value.high]
    if isinstance(value, Mapping):
        return {str(key): _plain(item, f"{path}.{key}" if path else str(key), reasons) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item, f"{path}[{index}]", reasons) for index, item in enumerate(value)]
    return value


class Inputs:
    """The inputs of one kind, checked field by field. Every method raises UsageError naming the field."""

    def __init__(self, kind: Kind, values: Mapping[str, Any]) -> None:
        self._kind = kind.name
        if not isinstance(values, Mapping):
            raise UsageError(f"{kind.name}: inputs must be an object with {', '.join(kind.fields)}")
        self._values = values
        allowed = {name.removesuffix("?") for name in kind.fields}
        for name in values:
            if name not in allowed:
                raise UsageError(f"{kind.name}: unknown field {name!r}; it takes {', '.join(kind.fields)}")
        for name, meaning in kind.fields.items():
            if not name.endswith("?") and name not in values:
                raise UsageError(f"{kind.name}: field {name!r} is missing: {meaning}")

    def __contains__(self, name: str) -> bool:
        return self._values.get(name) is not None

    def fail(self, place: str, problem: str) -> UsageError:
        """The error for a value at this place."""
        return UsageError(f"{self._kind}: {place}: {problem}")

    def raw(self, name: str) -> Any:
        """The value as it came."""
        return self._values[name]

    def number(self, name: str, low: float = -math.inf, high: float = math.inf) -> float:
        """A finite number in low..high."""
        return self.as_number(self._values[name], name, low, high)

    def inside(self, name: str, low: float, high: float, default: float | None = None) -> float:
        """A number strictly between low and high."""
        if name not in self and default is not None:
            return default
        value = self.number(name)
        if not low < value < high:
            raise self.fail(name, f"must lie between {low:g} and {high:g}, is {value:g}")
        return value

    def integer(self, name: str, low: int = 0, high: int = 10**9) -> int:
        """A whole number in low..high."""
        return self.as_integer(self._values[name], name, low, high)

    def items(self, name: str, at_least: int = 0) -> list[Any]:
        """A list of at most `MAX_ITEMS`."""
        return self.as_items(self._values[name], name, at_least)

    def numbers(self, name: str, at_least: int = 0) -> list[float]:
        """A list of finite numbers."""
        return [self.as_number(value, f"{name}[{index}]") for index, value in enumerate(self.items(name, at_least))]

    def numbers_or_null(self, name: str) -> list[float | None]:
        """A list of finite numbers and nulls."""
        return [
            None if value is None else self.as_number(value, f"{name}[{index}]")
            for index, value in enumerate(self.items(name))
        ]

    def labels(self, name: str, length: int | None = None) -> list[Label]:
        """A list of strings or numbers; of the given length."""
        values = [self.as_label(value, f"{name}[{index}]") for index, value in enumerate(self.items(name))]
        if length is not None and len(values) != length:
            raise self.fail(name, f"must have {length} entries like the other lists, has {len(values)}")
        return values

    def families(self, name: str, length: int) -> list[Label | None]:
        """A list of labels and nulls of the given length; null is a case without a family."""
        values = [
            None if value is None else self.as_label(value, f"{name}[{index}]")
            for index, value in enumerate(self.items(name))
        ]
        if len(values) != length:
            raise self.fail(name, f"must have {length} entries like the other lists, has {len(values)}")
        return values

    def same_length(self, *names: str) -> None:
        """Check that these lists are equally long."""
        sizes = [len(self.items(name)) for name in names]
        if len(set(sizes)) > 1:
            listed = ", ".join(f"{name} {size}" for name, size in zip(names, sizes, strict=True))
            raise self.fail(names[-1], f"lists must have the same length ({listed})")

    def mapping(self, name: str) -> dict[str, Any]:
        """An object."""
        value = self._values[name]
        if not isinstance(value, Mapping):
            raise self.fail(name, "must be an object")
        return dict(value)

    def as_items(self, value: Any, place: str, at_least: int = 0) -> list[Any]:
        """Check one list."""
        if not isinstance(value, Sequence) or isinstance(value, str | bytes):
            raise self.fail(place, "must be a list")
        if not at_least <= len(value) <= MAX_ITEMS:
            raise self.fail(place, f"must have {at_least} to {MAX_ITEMS:,} entries, has {len(value):,}")
        return list(value)

    def as_number(self, value: Any, place: str, low: float = -math.inf, high: float = math.inf) -> float:
        """Check one number; true and false count as 1 and 0."""
        if not isinstance(value, int | float):
            raise self.fail(place, f"must be a number, is {_named(value)}")
        try:
            number = float(value)
        except OverflowError:
            number = math.inf
        if not math.isfinite(number):
            raise self.fail(place, "must be a finite number")
        if not low <= number <= high:
            raise self.fail(place, f"must be {low:g} to {high:g}, is {number:g}")
        return number

    def as_integer(self, value: Any, place: str, low: int = 0, high: int = 10**9) -> int:
        """Check one whole number."""
        if isinstance(value, bool) or not isinstance(value, int):
            raise self.fail(place, f"must be a whole number, is {_named(value)}")
        if not low <= value <= high:
            raise self.fail(place, f"must be {low} to {high}, is {value}")
        return value

    def as_label(self, value: Any, place: str) -> Label:
        """Check one label."""
        if not isinstance(value, str | int | float):
            raise self.fail(place, f"must be a string or a number, is {_named(value)}")
        return value

    def as_choice(self, value: Any, place: str, choices: Sequence[Choice]) -> Choice:
        """Check one of several words."""
        for choice in choices:
            if value == choice:
                return choice
        raise self.fail(place, f"must be one of {', '.join(choices)}, is {_named(value)}")


def _named(value: Any) -> str:
    """A short name of a wrong value, fit for an error line."""
    if value is None:
        return "null"
    text = repr(value)
    return text if len(text) <= 40 else f"a {type(value).__name__}"


def either(value: Any, reason: str) -> Any:
    """The value, or `Undefined` when it is None."""
    return Undefined(reason) if value is None else value
