"""Assertions on the final answer: text, patterns, equality, JSON; and on whether the trial ended in an error."""

from __future__ import annotations

import json
import unicodedata
from typing import Any, ClassVar

import regex
from pydantic import field_validator

from mst.errors import GraderError
from mst.grade.assertions.base import Assertion, Text, Texts, answer_json, listed, shown, verdict
from mst.judges.contract import Subject
from mst.judges.options import Options
from mst.model.score import GraderScore

PATTERN_TIMEOUT_S = 1.0


class TextOptions(Options):
    """Options of `contains_text` and `not_contains_text`."""

    main: ClassVar[str] = "value"

    value: Text | Texts
    """One text or several; all must be there, or none."""
    ignore_case: bool = False


class PatternOptions(Options):
    """Options of `matches_pattern`."""

    main: ClassVar[str] = "value"

    value: Text | Texts
    """One regular expression or several (syntax of the `regex` package); each must match somewhere."""
    ignore_case: bool = False

    @field_validator("value")
    @classmethod
    def _compiles(cls, value: str | list[str]) -> str | list[str]:
        for pattern in listed(value):
            try:
                regex.compile(pattern)
            except regex.error as error:
                raise ValueError(f"pattern {shown(pattern)} is not valid: {error}") from error
        return value


class EqualsOptions(Options):
    """Options of `equals`. Without `value`, the case's `expected.answer` is meant."""

    main: ClassVar[str] = "value"

    value: Any = None
    """A text is compared with the answer; anything else with the answer read as JSON."""
    strip: bool = True
    """Ignore white space around both texts."""
    collapse_whitespace: bool = False
    """Count every run of white space as one space."""
    ignore_case: bool = False


class ErrorOptions(Options):
    """Options of `is_error`."""

    main: ClassVar[str] = "value"

    value: bool = True
    """Whether an error is expected."""
    contains: Text | Texts | None = None
    """Texts that the error's message must hold."""


def contains_text(subject: Subject, options: TextOptions) -> GraderScore:
    """The answer holds every text."""
    answer = _folded(subject.text, fold=options.ignore_case)
    faults = [
        f"does not contain {shown(text)}"
        for text in listed(options.value)
        if _folded(text, fold=options.ignore_case) not in answer
    ]
    return verdict(faults, f"contains {shown(options.value)}")


def not_contains_text(subject: Subject, options: TextOptions) -> GraderScore:
    """The answer holds none of the texts."""
    answer = _folded(subject.text, fold=options.ignore_case)
    faults = [
        f"contains {shown(text)}" for text in listed(options.value) if _folded(text, fold=options.ignore_case) in answer
    ]
    return verdict(faults, f"does not contain {shown(options.value)}")


def matches_pattern(subject: Subject, options: PatternOptions) -> GraderScore:
    """Every pattern matches somewhere in the answer; a second each, then it is a grading error."""
    flags = regex.IGNORECASE if options.ignore_case else 0
    faults = []
    for pattern in listed(options.value):
        try:
            # concurrent: other threads, such as the heartbeat's, run while it searches.
            found = regex.search(pattern, subject.text, flags=flags, timeout=PATTERN_TIMEOUT_S, concurrent=True)
        except TimeoutError as error:
            raise GraderError(
                f"pattern {shown(pattern)} did not end within {PATTERN_TIMEOUT_S:g} s on this answer; "
                "write it without nested repetition"
            ) from error
        if found is None:
            faults.append(f"does not match {shown(pattern)}")
    return verdict(faults, f"matches {shown(options.value)}")


def equals(subject: Subject, options: EqualsOptions) -> GraderScore:
    """The answer equals a value, texts after normalisation (Unicode NFC always)."""
    wanted = options.value if "value" in options.model_fields_set else subject.case.expected.get("answer")
    if wanted is None and "value" not in options.model_fields_set:
        raise GraderError("equals: there is nothing to compare with; give a value, or the case an expected.answer")
    if isinstance(wanted, str):
        same = _normal(wanted, options) == _normal(subject.text, options)
    else:
        try:
            same = same_json(answer_json(subject.text), wanted)
        except ValueError:
            return verdict([f"is not JSON; expected {shown(wanted)}"], "")
    return verdict([] if same else [f"expected {shown(wanted)}, got {shown(subject.text)}"], f"equals {shown(wanted)}")


def is_error(subject: Subject, options: ErrorOptions) -> GraderScore:
    """The trial ended in an error: the program failed, or its last tool call did."""
    message = error_of(subject)
    if not options.value:
        return verdict([] if message is None else [f"ended in an error: {shown(message)}"], "no error")
    if message is None:
        return verdict(["no error"], "")
    faults = [
        f"the error does not contain {shown(text)}" for text in listed(options.contains or []) if text not in message
    ]
    return verdict(faults, f"ended in an error: {shown(message)}")


def error_of(subject: Subject) -> str | None:
    """The message of the error that a trial ended in, or None."""
    transcript = subject.record.transcript
    if subject.record.error is not None:
        return subject.record.error
    if transcript is None:
        return None
    if transcript.error is not None:
        return transcript.error
    calls = [event for event in transcript.events if event.kind == "tool_call"]
    if not calls or not calls[-1].is_error:
        return None
    output = calls[-1].output
    return output if isinstance(output, str) else json.dumps(output, ensure_ascii=False, default=str)


def same_json(left: Any, right: Any) -> bool:
    """Equality of JSON values: 1 equals 1.0, but true does not equal 1."""
    if isinstance(left, bool) or isinstance(right, bool):
        return left is right
    if isinstance(left, dict) and isinstance(right, dict):
        return left.keys() == right.keys() and all(same_json(left[key], right[key]) for key in left)
    if isinstance(left, list) and isinstance(right, list):
        return len(left) == len(right) and all(map(same_json, left, right))
    return bool(left == right)


def _folded(text: str, *, fold: bool) -> str:
    return text.casefold() if fold else text


def _normal(text: str, options: EqualsOptions) -> str:
    text = unicodedata.normalize("NFC", text)
    if options.collapse_whitespace:
        text = " ".join(text.split())
    if options.strip:
        text = text.strip()
    return text.casefold() if options.ignore_case else text


TEXT_ASSERTIONS: dict[str, Assertion] = {
    "contains_text": Assertion(Options=TextOptions, grade=contains_text),
    "not_contains_text": Assertion(Options=TextOptions, grade=not_contains_text),
    "matches_pattern": Assertion(Options=PatternOptions, grade=matches_pattern),
    "equals": Assertion(Options=EqualsOptions, grade=equals),
    "is_error": Assertion(Options=ErrorOptions, grade=is_error),
}
