"""What an assertion is, and what its parts share."""

from __future__ import annotations

import json
import math
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Annotated, Any

from pydantic import Field

from mst.judges.contract import JudgeContext, Subject
from mst.model.base import Model
from mst.model.case import GraderSpec
from mst.model.score import GraderScore

SHOWN_CHARACTERS = 100
Text = Annotated[str, Field(min_length=1)]
Texts = Annotated[list[Text], Field(min_length=1)]


@dataclass(frozen=True, kw_only=True)
class Assertion:
    """An assertion that is a pure function of the trial: no process, no file, no waiting.

    Attributes:
        Options: schema of its options; a bare value in a config stands for the main one.
        grade: called with the trial and validated options. Raises GraderError when it cannot say.
    """

    Options: type[Model]
    grade: Callable[[Subject, Any], GraderScore]


@dataclass(frozen=True, kw_only=True)
class ProgramAssertion:
    """An assertion that reads files or runs a program.

    Attributes:
        Options: schema of its options.
        run: called with the trial, validated options, the whole spec (files, secrets) and a context. Raises
            GraderError when it cannot say.
    """

    Options: type[Model]
    run: Callable[[Subject, Any, GraderSpec, JudgeContext], Awaitable[GraderScore]]


def listed(value: str | list[str]) -> list[str]:
    """One text or several, as a list."""
    return [value] if isinstance(value, str) else value


def shown(value: Any) -> str:
    """A value as details quote it: JSON, cut at 100 characters."""
    text = json.dumps(value, ensure_ascii=False, default=str)
    return text if len(text) <= SHOWN_CHARACTERS else f"{text[:SHOWN_CHARACTERS]}..."


def answer_json(text: str) -> Any:
    """An answer read as JSON. NaN and Infinity, which Python reads, are none.

    Raises:
        ValueError: it is not JSON, nested too deeply, or has a number in it that cannot be held.
    """
    try:
        return json.loads(text, parse_constant=_no_constant, parse_float=_number)
    except RecursionError as error:
        raise ValueError("nested too deeply") from error


def _no_constant(name: str) -> None:
    raise ValueError(f"{name} is no JSON")


def _number(digits: str) -> float:
    number = float(digits)
    if math.isinf(number):
        raise ValueError(f"the number {shown(digits)} is too large")
    return number


def verdict(faults: list[str], otherwise: str) -> GraderScore:
    """Passed when nothing is wrong; details name every fault, or what holds."""
    return GraderScore(passed=not faults, details="; ".join(faults) or otherwise)
