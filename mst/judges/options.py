"""What the option schemas of graders share."""

from __future__ import annotations

from typing import Any, ClassVar, TypeVar

from pydantic import ConfigDict, ValidationError, model_validator

from mst.errors import ConfigError
from mst.judges.verdict import first_fault
from mst.model.base import Model
from mst.model.case import GraderSpec

OptionsT = TypeVar("OptionsT", bound=Model)


class Options(Model):
    """Base of option schemas: unknown keys are refused, and a bare value stands for the main option.

    Class attributes:
        main: the option that a bare value is for, as in `contains_text: ok`; empty when there is none.
    """

    model_config = ConfigDict(extra="forbid")

    main: ClassVar[str] = ""

    @model_validator(mode="before")
    @classmethod
    def _bare_value(cls, data: Any) -> Any:
        return data if isinstance(data, dict | Model) or not cls.main else {cls.main: data}


class NoOptions(Options):
    """Of a grader that takes none."""


def parse_options(spec: GraderSpec, schema: type[OptionsT]) -> OptionsT:
    """Validate a spec's options.

    Raises:
        ConfigError: the first fault, under the grader's name.
    """
    try:
        return schema.model_validate(spec.options)
    except ValidationError as error:
        raise ConfigError(f"{spec.name or spec.type}: {first_fault(error)}") from error
