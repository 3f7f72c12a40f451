"""`number_close` and `json_path`: values inside the answer."""

from __future__ import annotations

import math
import re
from functools import lru_cache
from typing import Any, ClassVar, Literal

from pydantic import Field, field_validator, model_validator

from mst.errors import ConfigError, GraderError
from mst.grade.assertions.base import Assertion, answer_json, shown, verdict
from mst.grade.assertions.text import same_json
from mst.judges.contract import Subject
from mst.judges.options import Options
from mst.model.score import GraderScore

_NUMBER = re.compile(r"(?<![\w.])[-+\u2212]?(?:\d{1,3}(?:,\d{3})+|\d+)?(?:\.\d+|(?<=\d))(?:[eE][-+]?\d+)?(?![\w])")
MAX_ANSWER_CHARACTERS = 1_000_000


class NumberOptions(Options):
    """Options of `number_close`. Without `value`, the case's `expected.answer` is meant."""

    main: ClassVar[str] = "value"

    value: float | None = None
    rel: float = Field(default=1e-6, ge=0)
    """Allowed difference as a share of the expected value."""
    abs: float = Field(default=0.0, ge=0)
    """Allowed difference; the larger of both counts."""
    which: Literal["only", "first", "last"] = "last"
    """Which number of the answer is meant; `only`: it must hold exactly one."""


class JsonPathOptions(Options):
    """Options of `json_path`."""

    main: ClassVar[str] = "path"

    path: str = Field(min_length=1)
    """A JSONPath query (RFC 9535), such as `$.items[?@.price > 10].name`."""
    equals: Any = None
    """A value that one of the values found must equal, or all of them with `all`."""
    all: bool = False
    exists: bool = True
    """Whether anything is to be found."""
    min_count: int | None = Field(default=None, ge=0)
    max_count: int | None = Field(default=None, ge=0)

    @field_validator("path")
    @classmethod
    def _compiles(cls, value: str) -> str:
        _query(value)
        return value

    @model_validator(mode="after")
    def _fits(self) -> JsonPathOptions:
        if not self.exists and ({"equals", "min_count", "max_count"} & self.model_fields_set):
            raise ValueError("'exists: false' stands alone: nothing is there to compare or count")
        return self


def number_close(subject: Subject, options: NumberOptions) -> GraderScore:
    """A number of the answer is as close to the expected one as allowed."""
    wanted = _expected_number(subject, options)
    found = numbers_of(subject.text[-MAX_ANSWER_CHARACTERS:])
    if not found:
        return verdict(["no number in the answer"], "")
    if options.which == "only" and len(found) > 1:
        return verdict([f"{len(found)} numbers in the answer, expected one"], "")
    number = found[0] if options.which == "first" else found[-1]
    allowed = max(options.abs, options.rel * abs(wanted))
    close = number == wanted or abs(number - wanted) <= allowed
    return verdict([] if close else [f"expected {wanted:g} within {allowed:g}, got {number:g}"], f"{number:g}")


def _expected_number(subject: Subject, options: NumberOptions) -> float:
    if options.value is not None:
        return options.value
    answer = subject.case.expected.get("answer")
    found = numbers_of(answer) if isinstance(answer, str) else []
    if isinstance(answer, int | float) and not isinstance(answer, bool):
        return float(answer)
    if len(found) == 1:
        return found[0]
    raise GraderError("number_close: there is no number to compare with; give a value, or the case an expected.answer")


def numbers_of(text: str) -> list[float]:
    """The numbers in a text, in order: `1,234.5`, `-3e8`, `.5`; not those inside words or versions such as `1.2.3`."""
    found = []
    for match in _NUMBER.finditer(text):
        after = text[match.end() : match.end() + 2]
        if not match[0].strip("+-\u2212") or (after[:1] == "." and after[1:].isdigit()):
            continue
        number = float(match[0].replace(",", "").replace("\u2212", "-"))
        if math.isfinite(number):
            found.append(number)
    return found


def json_path(subject: Subject, options: JsonPathOptions) -> GraderScore:
    """What a query finds in the answer, which must be JSON, is there, equals a value, is as many as said."""
    try:
        answer = answer_json(subject.text)
    except ValueError as error:
        return verdict([f"is not JSON: {error}"], "")
    query = _query(options.path)
    try:
        values = [node.value for node in query.find(answer)]
    except (_too_deep(), RecursionError):
        return verdict(["is nested too deeply to be searched"], "")
    except ValueError as error:
        raise GraderError(f"json_path: {options.path}: {error}") from error
    return verdict(_path_faults(values, options), f"{options.path}: {shown(values[0]) if values else 'nothing there'}")


def _path_faults(values: list[Any], options: JsonPathOptions) -> list[str]:
    path = options.path
    if not options.exists:
        return [f"{path}: is there: {shown(values[0])}"] if values else []
    faults = []
    if options.min_count is not None and len(values) < options.min_count:
        faults.append(f"{path}: {len(values)} found, expected at least {options.min_count}")
    if options.max_count is not None and len(values) > options.max_count:
        faults.append(f"{path}: {len(values)} found, expected at most {options.max_count}")
    if not values and options.min_count is None and options.max_count is None:
        return [f"{path}: nothing there"]
    if "equals" in options.model_fields_set:
        same = [same_json(value, options.equals) for value in values]
        if not values or not (all(same) if options.all else any(same)):
            found = ", ".join(map(shown, values[:3]))
            faults.append(f"{path}: expected {shown(options.equals)}, got {found or 'nothing'}")
    return faults


@lru_cache(maxsize=256)
def _query(path: str) -> Any:
    """A compiled query. The functions with patterns are left out: they could search without end.

    Raises:
        ValueError: it is not one.
        ConfigError: the package is missing.
    """
    try:
        import jsonpath_rfc9535 as library  # noqa: PLC0415 - only for this assertion
    except ModuleNotFoundError as error:
        raise ConfigError("json_path needs the package 'jsonpath-rfc9535': pip install jsonpath-rfc9535") from error
    environment = library.JSONPathEnvironment()
    for name in ("match", "search"):
        del environment.function_extensions[name]
    try:
        return environment.compile(path)
    except library.JSONPathError as error:
        raise ValueError(f"path {shown(path)} is no JSONPath query: {error}") from error


def _too_deep() -> type[Exception]:
    import jsonpath_rfc9535 as library  # noqa: PLC0415 - only for this assertion, and there: a query was compiled

    found: type[Exception] = library.JSONPathRecursionError
    return found


NUMBER_ASSERTIONS: dict[str, Assertion] = {
    "number_close": Assertion(Options=NumberOptions, grade=number_close),
    "json_path": Assertion(Options=JsonPathOptions, grade=json_path),
}
