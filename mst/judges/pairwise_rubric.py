"""A pairwise judge that is a model with a rubric."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Annotated, Any, ClassVar, Literal

from pydantic import Field, create_model, field_validator

from mst.errors import GraderError
from mst.judges.contract import Choice, JudgeContext, Subject
from mst.judges.endpoints import secret_names
from mst.judges.options import Options, parse_options
from mst.judges.program import need_secrets
from mst.judges.prompts import PROMPT_HASH, pair_prompt
from mst.judges.rubric import ModelAnswer, RubricOptions, checked, open_models, schema_of
from mst.judges.rubrics import rubric_text
from mst.judges.verdict import PairVerdict, Unit
from mst.model.base import Model
from mst.model.case import GraderSpec

Name = Annotated[str, Field(min_length=1, max_length=60)]


class Dimensions(Options):
    """What pairwise judges that compare aspect by aspect have in common."""

    dimensions: dict[Name, str] = Field(default={}, max_length=10)
    """Aspects to compare one by one: a list of names, or names with what each means."""

    @field_validator("dimensions", mode="before")
    @classmethod
    def _named_dimensions(cls, value: Any) -> Any:
        return dict.fromkeys(value, "") if isinstance(value, list) else value


class PairwiseRubricOptions(RubricOptions, Dimensions):
    """Options of the pairwise `rubric`."""


class PairAnswer(ModelAnswer):
    """What the model answers."""

    reasoning: Annotated[str, Field(min_length=1)]
    preference: Literal["first", "second", "tie"]
    strength: Unit


class DimensionAnswer(ModelAnswer):
    """What the model says of one dimension."""

    reasoning: str
    preference: Literal["first", "second", "tie"]


class RubricPairwise:
    """Asks a model once per call. It sees `first` and `second`, laid out alike, never which side is which."""

    Options: ClassVar[type[Model]] = PairwiseRubricOptions
    PROMPT_HASH: ClassVar[str] = PROMPT_HASH
    deterministic: ClassVar[bool] = False

    def __init__(self, spec: GraderSpec) -> None:
        self._spec = spec
        self._options = parse_options(spec, PairwiseRubricOptions)
        self._models = open_models(spec, self._options)
        self._answer = _answer_kind(list(self._options.dimensions))
        self._schema = schema_of(self._answer)

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

    async def compare(
        self, baseline: Subject, candidate: Subject, context: JudgeContext, *, candidate_first: bool
    ) -> Choice:
        """Ask the model about both sides in one order.

        Raises:
            GraderError: no usable preference.
        """
        first, second = (candidate, baseline) if candidate_first else (baseline, candidate)
        prompt = pair_prompt(
            first, second, rubric_text(self._options.rubric), self._options.showing(), self._options.dimensions
        )
        answered = await self._models.ask(prompt, self._schema, context)
        answer = checked(answered.value, self._answer).model_dump(by_alias=False)
        parts = _by_name(answer.get("dimensions"), self._options.dimensions)
        verdict = PairVerdict.model_validate({**answer, "dimensions": parts})
        choice = verdict.choice(candidate_first=candidate_first)
        return Choice(
            **{
                **vars(choice),
                "usage": answered.usage,
                "provider": answered.provider,
                "model": answered.model,
                "metadata": answered.metadata,
            }
        )

    async def aclose(self) -> None:
        """Close connections."""
        await self._models.aclose()


def _answer_kind(names: list[str]) -> type[ModelAnswer]:
    """The form of the answer; with dimensions, a list that names only those that were asked for."""
    if not names:
        return PairAnswer
    one_of: Any = Literal[tuple(names)]
    part = create_model("Dimension", __base__=DimensionAnswer, name=(one_of, ...))
    listed = Annotated[list[part], Field(min_length=len(names), max_length=len(names))]
    return create_model("PairAnswerWithDimensions", __base__=PairAnswer, dimensions=(listed, ...))


def _by_name(parts: list[dict[str, Any]] | None, names: Iterable[str]) -> dict[str, Any] | None:
    if parts is None:
        return None
    found = {part["name"]: {key: part[key] for key in ("preference", "reasoning")} for part in parts}
    absent = [name for name in names if name not in found]
    if absent:
        raise GraderError(f"the model's answer is not usable: it does not compare {', '.join(absent)}", "answer")
    return found
