"""What judged programs and callables may answer, strictly checked. Out of range is an error, never a result."""

from __future__ import annotations

from typing import Annotated, Any, Literal, TypeVar

from pydantic import ConfigDict, Field, ValidationError, model_validator

from mst.errors import GraderError
from mst.judges import strictjson
from mst.judges.contract import Choice, Finding
from mst.model.base import Model
from mst.model.score import Side, SubScore
from mst.model.transcript import Usage

Slot = Literal["first", "second", "tie"]
Unit = Annotated[float, Field(ge=0, le=1, strict=True)]
Flag = Annotated[bool, Field(strict=True)]


class Part(Model):
    """One entry of `sub_scores`."""

    model_config = ConfigDict(extra="forbid")

    score: Unit
    passed: Flag | None = Field(default=None, alias="pass")
    reasoning: str | None = None


class Spent(Usage):
    """Usage as a judge reports it; an unknown key is refused rather than lost."""

    model_config = ConfigDict(extra="forbid")


class _Answer(Model):
    model_config = ConfigDict(extra="forbid")

    skipped: Flag = False
    reasoning: str | None = None
    usage: Spent | None = None
    provider: str | None = None
    model: str | None = None
    metadata: dict[str, Any] | None = None


class Verdict(_Answer):
    """A judge's answer: `score` from 0 to 1 unless skipped; snake_case or camelCase keys."""

    score: Unit | None = None
    passed: Flag | None = Field(default=None, alias="pass")
    sub_scores: dict[str, Part] | None = None

    @model_validator(mode="after")
    def _has_score(self) -> Verdict:
        if self.score is None and not self.skipped:
            raise ValueError("'score' is missing: a number from 0 to 1, unless 'skipped' is true")
        return self

    def finding(self) -> Finding:
        """The answer under the contract's names."""
        parts = None
        if self.sub_scores is not None:
            parts = {
                name: SubScore(score=part.score, passed=part.passed, reasoning=part.reasoning)
                for name, part in self.sub_scores.items()
            }
        return Finding(
            score=None if self.skipped else self.score,
            passed=None if self.skipped else self.passed,
            skipped=self.skipped,
            reasoning=self.reasoning,
            sub_scores=parts,
            usage=_usage(self.usage),
            provider=self.provider,
            model=self.model,
            metadata=self.metadata,
        )


class Dimension(Model):
    """One aspect of a comparison; `first` and `second` are scores of the sides, in any scale."""

    model_config = ConfigDict(extra="forbid")

    preference: Slot
    strength: Unit | None = None
    reasoning: str | None = None
    first: float | None = None
    second: float | None = None


class PairVerdict(_Answer):
    """A pairwise judge's answer about the sides as it saw them."""

    preference: Slot | None = None
    strength: Unit | None = None
    dimensions: dict[str, Dimension] | None = None

    @model_validator(mode="after")
    def _has_preference(self) -> PairVerdict:
        if self.preference is None and not self.skipped:
            raise ValueError("'preference' is missing: first, second or tie, unless 'skipped' is true")
        return self

    def choice(self, *, candidate_first: bool) -> Choice:
        """The answer mapped back from positions to sides."""
        sides: dict[Slot, Side] = {
            "first": "candidate" if candidate_first else "baseline",
            "second": "baseline" if candidate_first else "candidate",
            "tie": "tie",
        }
        dimensions = None
        if self.dimensions is not None:
            dimensions = {name: _mapped(part, sides) for name, part in self.dimensions.items()}
        return Choice(
            preference=None if self.skipped or self.preference is None else sides[self.preference],
            skipped=self.skipped,
            strength=None if self.skipped else self.strength,
            reasoning=self.reasoning,
            dimensions=dimensions,
            usage=_usage(self.usage),
            provider=self.provider,
            model=self.model,
            metadata=self.metadata,
        )


AnswerT = TypeVar("AnswerT", bound=_Answer)


def parse_answer(data: bytes | str, kind: type[AnswerT]) -> AnswerT:
    """Read one JSON object as an answer.

    Raises:
        GraderError: no JSON object, an unknown key, a value of the wrong type or out of range.
    """
    try:
        value = strictjson.loads(data)
    except ValueError as error:
        raise GraderError(f"the answer is {error}; print one JSON object and nothing else") from error
    return check_answer(value, kind)


def check_answer(value: Any, kind: type[AnswerT]) -> AnswerT:
    """Check a value as an answer.

    Raises:
        GraderError: see `parse_answer`.
    """
    if not isinstance(value, dict):
        raise GraderError(f"the answer must be a mapping, not {type(value).__name__}")
    try:
        return kind.model_validate(value)
    except ValidationError as error:
        raise GraderError(f"the answer is not usable: {first_fault(error)}") from error


def first_fault(error: ValidationError) -> str:
    """The first fault of a validation in words, with its place; no input values, which may be secret."""
    fault = error.errors(include_url=False, include_input=False)[0]
    where = ".".join(str(part) for part in fault["loc"])
    message = fault["msg"].removeprefix("Value error, ")
    return f"{where}: {message}" if where else message


def _mapped(part: Dimension, sides: dict[Slot, Side]) -> dict[str, Any]:
    found: dict[str, Any] = {"preference": sides[part.preference]}
    if part.strength is not None:
        found["strength"] = part.strength
    if part.reasoning is not None:
        found["reasoning"] = part.reasoning
    for slot, score in (("first", part.first), ("second", part.second)):
        if score is not None:
            found[sides[slot]] = score  # type: ignore[index]  # both slots are keys
    return found


def _usage(spent: Spent | None) -> Usage | None:
    return None if spent is None else Usage.model_validate(spent.model_dump())
