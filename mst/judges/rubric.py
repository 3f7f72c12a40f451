"""A judge that is a model with a rubric."""

from __future__ import annotations

import statistics
from collections.abc import Mapping
from functools import lru_cache
from typing import Annotated, Any, ClassVar

from pydantic import ConfigDict, Field, ValidationError

from mst.errors import ConfigError, GraderError
from mst.judges.contract import Finding, JudgeContext, Subject
from mst.judges.endpoints import ModelOptions, secret_names
from mst.judges.models import Models
from mst.judges.options import parse_options
from mst.judges.program import need_secrets
from mst.judges.prompts import PROMPT_HASH, Showing, Shown, criteria, judge_prompt
from mst.judges.rubrics import rubric_text
from mst.judges.verdict import Unit, first_fault
from mst.model.base import Model
from mst.model.case import GraderSpec
from mst.model.score import SubScore


class RubricOptions(ModelOptions):
    """Options of `rubric`."""

    main: ClassVar[str] = "rubric"

    rubric: Annotated[str, Field(min_length=1)] = "correctness"
    """`correctness`, `completeness`, `groundedness`, `instruction-following`, `conciseness`, or a text of your own."""
    show: list[Shown] = Field(default=["response", "diff"], min_length=1)
    """What it is shown of a trial: `response`, `diff`, `transcript`, `files` (their names)."""
    reference: bool | str = True
    """Whether it is shown the case's `expected.answer`; a text is the reference itself."""

    def showing(self) -> Showing:
        """What it is shown."""
        return Showing(parts=tuple(self.show), max_tool_output=self.max_tool_output, reference=self.reference)


class ModelAnswer(Model):
    """Base of what a model may answer; unknown keys are refused."""

    model_config = ConfigDict(extra="forbid")


class RubricAnswer(ModelAnswer):
    """What the model answers."""

    reasoning: Annotated[str, Field(min_length=1)]
    score: Unit


class Criterion(ModelAnswer):
    """What the model says of one criterion."""

    number: Annotated[int, Field(ge=1, strict=True)]
    reasoning: str
    score: Unit


class CriteriaAnswer(ModelAnswer):
    """What the model answers when the case lists criteria."""

    reasoning: Annotated[str, Field(min_length=1)]
    criteria: list[Criterion]


class RubricJudge:
    """Asks a model once per call. With criteria in the case the score is the mean of theirs."""

    Options: ClassVar[type[Model]] = RubricOptions
    PROMPT_HASH: ClassVar[str] = PROMPT_HASH

    def __init__(self, spec: GraderSpec) -> None:
        self._spec = spec
        self._options = parse_options(spec, RubricOptions)
        self._models = open_models(spec, self._options)

    @classmethod
    def secrets_of(cls, options: Mapping[str, Any]) -> list[str]:
        """Names of the keys that its options ask for."""
        return secret_names(options)

    def bound_s(self, timeout_s: float) -> float:
        """See `Judge`."""
        return self._models.bound_s(timeout_s)

    async def preflight(self, context: JudgeContext) -> None:
        """See `Models.preflight`."""
        need_secrets(self._spec.secrets, context)
        await self._models.preflight(context)

    async def evaluate(self, subject: Subject, context: JudgeContext) -> Finding:
        """Ask the model about one trial.

        Raises:
            GraderError: no usable verdict.
        """
        wanted = criteria(subject.case)
        kind: type[ModelAnswer] = CriteriaAnswer if wanted else RubricAnswer
        prompt = judge_prompt(subject, rubric_text(self._options.rubric), self._options.showing())
        answered = await self._models.ask(prompt, schema_of(kind), context)
        answer = checked(answered.value, kind)
        score, parts = _scored(answer, wanted)
        return Finding(
            score=score,
            reasoning=str(answered.value["reasoning"]),
            sub_scores=parts,
            usage=answered.usage,
            provider=answered.provider,
            model=answered.model,
            metadata=answered.metadata,
        )

    async def aclose(self) -> None:
        """Close connections."""
        await self._models.aclose()


def open_models(spec: GraderSpec, options: ModelOptions) -> Models:
    """The models that a judge's options name.

    Raises:
        ConfigError: none is named.
    """
    try:
        return Models(options, spec.retries)
    except ValueError as error:
        raise ConfigError(f"{spec.name or spec.type}: {error}") from error


@lru_cache(maxsize=64)
def schema_of(kind: type[Model]) -> dict[str, Any]:
    """The JSON Schema of an answer, without titles that only cost tokens. The same object each time."""
    return dict(_bare(kind.model_json_schema(by_alias=False)))


def checked(value: dict[str, Any], kind: type[ModelAnswer]) -> Any:
    """A model's answer, checked.

    Raises:
        GraderError: a key is missing or unknown, a value is of the wrong type or out of range.
    """
    try:
        return kind.model_validate(value)
    except ValidationError as error:
        raise GraderError(f"the model's answer is not usable: {first_fault(error)}", "answer") from error


def _scored(answer: Any, wanted: list[str]) -> tuple[float, dict[str, SubScore] | None]:
    if not wanted:
        return answer.score, None
    found = {part.number: part for part in answer.criteria}
    if sorted(found) != list(range(1, len(wanted) + 1)) or len(answer.criteria) != len(wanted):
        raise GraderError(
            f"the model's answer is not usable: it scores the criteria {sorted(found)}, asked were 1 to {len(wanted)}",
            "answer",
        )
    parts = {
        f"{number}. {text[:80]}": SubScore(score=found[number].score, reasoning=found[number].reasoning)
        for number, text in enumerate(wanted, start=1)
    }
    return statistics.fmean(part.score for part in parts.values()), parts


def _bare(value: Any) -> Any:
    if isinstance(value, dict):
        return {
            key: _bare(item)
            for key, item in value.items()
            if not (key in {"title", "description"} and isinstance(item, str))
        }
    return [_bare(item) for item in value] if isinstance(value, list) else value
