"""`json_schema`: the answer is JSON of a given shape. Nothing is fetched, and patterns cannot hold the interpreter."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import regex
from pydantic import Field, field_validator

from mst.errors import GraderError
from mst.grade.assertions.base import Assertion, answer_json, shown, verdict
from mst.grade.assertions.text import PATTERN_TIMEOUT_S
from mst.judges.contract import Subject
from mst.judges.options import Options
from mst.model.score import GraderScore

if TYPE_CHECKING:
    from jsonschema.exceptions import ValidationError
    from jsonschema.protocols import Validator

MAX_FAULTS = 5
DEEP_LEVELS = 50
"""An answer with more levels may be too deep for a validation, which goes down level by level."""
VALIDATION_TIMEOUT_S = 10.0


class SchemaOptions(Options):
    """Options of `json_schema`."""

    schema_: dict[str, Any] = Field(alias="schema")
    """A JSON Schema (2020-12 unless `$schema` says otherwise). References stay inside it."""

    @field_validator("schema_")
    @classmethod
    def _is_schema(cls, value: dict[str, Any]) -> dict[str, Any]:
        from jsonschema.exceptions import SchemaError  # noqa: PLC0415 - heavy, and only for this assertion

        if not isinstance(value.get("$schema", ""), str):
            raise ValueError("'$schema' should be a text: which version of JSON Schema this is")  # noqa: TRY004 - so told
        try:
            _validator_class(value).check_schema(value)
        except SchemaError as error:
            raise ValueError(f"no valid JSON Schema: {error.message}") from error
        _check_patterns(value)
        return value


def json_schema(subject: Subject, options: SchemaOptions) -> GraderScore:
    """The answer is JSON and valid under the schema. Details name the first faults by their place in the answer."""
    from referencing.exceptions import Unresolvable  # noqa: PLC0415 - heavy, and only for this assertion

    try:
        answer = answer_json(subject.text)
    except ValueError as error:
        return verdict([f"is not JSON: {error}"], "")
    try:
        found = sorted(_validator(options.schema_).iter_errors(answer), key=_place)
    except Unresolvable as error:
        raise GraderError(f"json_schema: {error}; references must stay inside the schema") from error
    except OverflowError:
        return verdict(["holds a number that is too large to be checked"], "")
    except RecursionError as error:
        # A program must not get out of the pass rate by answering in a thousand brackets.
        if _is_deep(answer):
            return verdict([f"is nested more than {DEEP_LEVELS} levels deep, too deeply to be checked"], "")
        raise GraderError("json_schema: the schema refers to itself without end") from error
    faults = [f"{_place(fault)}: {_short(fault.message)}" for fault in found[:MAX_FAULTS]]
    if len(found) > MAX_FAULTS:
        faults.append(f"and {len(found) - MAX_FAULTS} more")
    return verdict(faults, "valid under the schema")


def _validator_class(schema: dict[str, Any]) -> type[Validator]:
    from jsonschema import Draft202012Validator, validators  # noqa: PLC0415 - heavy, and only for this assertion

    if "$schema" in schema:
        return validators.validator_for(schema, default=Draft202012Validator)
    return Draft202012Validator


def _validator(schema: dict[str, Any]) -> Validator:
    """A validator that fetches nothing (its registry knows the meta-schemas only) and comes to an end in time."""
    from jsonschema import validators  # noqa: PLC0415 - heavy, and only for this assertion
    from jsonschema_specifications import REGISTRY  # type: ignore[import-untyped]  # noqa: PLC0415 - as above

    patterns = _Patterns()
    kind = _validator_class(schema)
    keywords = {
        **kind.VALIDATORS,
        "pattern": patterns.pattern,
        "patternProperties": patterns.pattern_properties,
        "additionalProperties": patterns.additional_properties,
        "uniqueItems": _unique_items,
    }
    deadline = time.monotonic() + VALIDATION_TIMEOUT_S
    timed = validators.extend(  # type: ignore[no-untyped-call]  # the stubs leave it out
        kind, {name: _timed(keyword, deadline) for name, keyword in keywords.items()}
    )
    found: Validator = timed(schema, registry=REGISTRY)
    return found


def _timed(keyword: Any, deadline: float) -> Any:
    """A keyword that is not begun any more after the deadline: references can make a short schema endless work."""

    def begin(*given: Any) -> Any:
        if time.monotonic() > deadline:
            raise GraderError(
                f"json_schema: this answer was not checked within {VALIDATION_TIMEOUT_S:g} s; make the schema simpler"
            )
        return keyword(*given)

    return begin


def _unique_items(validator: Validator, wanted: Any, instance: Any, _: Any) -> Iterator[ValidationError]:
    """The library compares every item with every other one."""
    from jsonschema.exceptions import ValidationError  # noqa: PLC0415 - heavy, and only for this assertion

    if wanted and validator.is_type(instance, "array") and len(set(map(_key, instance))) < len(instance):
        yield ValidationError(f"{shown(instance)} has non-unique elements")


def _key(value: Any) -> Any:
    """Equal for equal JSON values: 1 and 1.0, but not 1 and true."""
    if isinstance(value, list):
        return tuple(map(_key, value))
    if isinstance(value, dict):
        return frozenset((name, _key(item)) for name, item in value.items())
    return type(value) is bool, value


def _is_deep(answer: Any) -> bool:
    level = [answer]
    for _ in range(DEEP_LEVELS):
        level = [
            item
            for value in level
            if isinstance(value, list | dict)
            for item in (value.values() if isinstance(value, dict) else value)
        ]
    return bool(level)


class _Patterns:
    """The keywords that hold patterns, under one time limit for a whole validation.

    The library's own versions use `re`, which has no time limit and holds the interpreter.
    """

    def __init__(self) -> None:
        self._deadline = time.monotonic() + PATTERN_TIMEOUT_S

    def _matches(self, pattern: str, text: str) -> bool:
        try:
            left = max(0.001, self._deadline - time.monotonic())
            return regex.search(pattern, text, timeout=left, concurrent=True) is not None
        except TimeoutError as error:
            raise GraderError(
                f"json_schema: patterns took longer than {PATTERN_TIMEOUT_S:g} s on this answer; "
                f"the last was {shown(pattern)}"
            ) from error

    def pattern(self, validator: Validator, pattern: str, instance: Any, _: Any) -> Iterator[ValidationError]:
        from jsonschema.exceptions import ValidationError  # noqa: PLC0415 - heavy, and only for this assertion

        if validator.is_type(instance, "string") and not self._matches(pattern, instance):
            yield ValidationError(f"{instance!r} does not match {pattern!r}")

    def pattern_properties(
        self, validator: Any, patterns: dict[str, Any], instance: Any, _: Any
    ) -> Iterator[ValidationError]:
        if not validator.is_type(instance, "object"):
            return
        for pattern, schema in patterns.items():
            for name, value in instance.items():
                if self._matches(pattern, name):
                    yield from validator.descend(value, schema, path=name, schema_path=pattern)

    def additional_properties(
        self, validator: Any, additional: Any, instance: Any, schema: dict[str, Any]
    ) -> Iterator[ValidationError]:
        from jsonschema.exceptions import ValidationError  # noqa: PLC0415 - heavy, and only for this assertion

        if not validator.is_type(instance, "object"):
            return
        known = schema.get("properties", {})
        patterns = schema.get("patternProperties", {})
        extras = [
            name
            for name in instance
            if name not in known and not any(self._matches(pattern, name) for pattern in patterns)
        ]
        if validator.is_type(additional, "object"):
            for name in extras:
                yield from validator.descend(instance[name], additional, path=name)
        elif additional is False and extras:
            yield ValidationError(f"unexpected properties: {', '.join(map(repr, extras))}")


def _check_patterns(schema: Any) -> None:
    """Refuse what cannot be timed: `unevaluatedProperties` over `patternProperties`."""
    if isinstance(schema, list):
        for item in schema:
            _check_patterns(item)
    if not isinstance(schema, dict):
        return
    if "unevaluatedProperties" in schema and "patternProperties" in json.dumps(schema):
        raise ValueError("'unevaluatedProperties' together with 'patternProperties' is not supported")
    for value in schema.values():
        _check_patterns(value)


def _place(fault: ValidationError) -> str:
    return fault.json_path


def _short(message: str) -> str:
    return message if len(message) <= 200 else f"{message[:200]}..."


JSON_ASSERTIONS: dict[str, Assertion] = {"json_schema": Assertion(Options=SchemaOptions, grade=json_schema)}
