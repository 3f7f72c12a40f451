"""From plain data with places to typed values: unknown keys with the nearest known one, all faults at once."""

from __future__ import annotations

import functools
import types
import typing
from typing import Any, TypeVar, get_args, get_origin

from pydantic import AliasChoices, BaseModel, ConfigDict, ValidationError
from pydantic.alias_generators import to_camel, to_snake

from mst.config.faults import pydantic_faults
from mst.config.source import Keys, Source, in_order, nearest
from mst.errors import ConfigError


class Written(BaseModel):
    """What people write: strict about keys and types. Keys are snake_case; the camelCase spelling is read too."""

    model_config = ConfigDict(
        frozen=True,
        extra="forbid",
        strict=True,
        allow_inf_nan=False,
        alias_generator=to_camel,
        validate_by_name=True,
        validate_by_alias=True,
        loc_by_alias=False,
    )

    def given(self) -> dict[str, Any]:
        """What was written, in snake_case, without defaults."""
        return self.model_dump(mode="json", by_alias=False, exclude_unset=True)


WrittenT = TypeVar("WrittenT", bound=BaseModel)


def parse(model: type[WrittenT], source: Source, data: Any, keys: Keys = ()) -> WrittenT:
    """Read a part of a source as a model.

    Raises:
        ConfigError: every fault of this part, each with its place.
    """
    faults: list[str] = []
    tidied = tidy(model, source, data, keys, faults)
    try:
        value = model.model_validate(tidied)
    except ValidationError as error:
        faults += pydantic_faults(error, tidied, source, keys)
        raise ConfigError(*in_order(faults)) from None
    if faults:
        raise ConfigError(*in_order(faults))
    return value


def tidy(model: type[BaseModel], source: Source, data: Any, keys: Keys, faults: list[str]) -> Any:
    """The data with the model's own keys in snake_case and without unknown ones; user data inside is not touched.

    Unknown keys, and keys given in both spellings, are appended to `faults`.
    """
    if not isinstance(data, dict):
        return data
    fields = model.model_fields
    names, nesting = spellings(model), _nesting(model)
    result: dict[str, Any] = {}
    for key, value in data.items():
        name = names.get(key)
        if name is None and model.model_config.get("extra") == "allow":
            result[key] = value
        elif name is None:
            word = f"unknown key {key!r}{nearest(to_snake(key), fields)}"
            faults.append(f"{source.place((*keys, key))}: {word}")
        elif name in result:
            faults.append(f"{source.place((*keys, key))}: {name!r} is given twice, in two spellings")
        else:
            nested = nesting.get(name)
            result[name] = value if nested is None else _inside(nested, source, value, (*keys, key), faults)
    return result


@functools.cache
def spellings(model: type[BaseModel]) -> dict[str, str]:
    """Field names of a model by every spelling that it reads, its own included."""
    found: dict[str, str] = {}
    for name, field in model.model_fields.items():
        choices = field.validation_alias.choices if isinstance(field.validation_alias, AliasChoices) else []
        for alias in (field.alias, field.validation_alias, *choices):
            if isinstance(alias, str):
                found[alias] = name
    return found | {name: name for name in model.model_fields}


@functools.cache
def _nesting(model: type[BaseModel]) -> dict[str, Any]:
    """Annotations of the fields that may hold models; all else is passed on as it is."""
    found = {name: field.annotation for name, field in model.model_fields.items()}
    return {name: annotation for name, annotation in found.items() if _holds_models(annotation)}


def _holds_models(annotation: Any) -> bool:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return True
    return any(map(_holds_models, get_args(annotation)))


def _inside(annotation: Any, source: Source, data: Any, keys: Keys, faults: list[str]) -> Any:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return tidy(annotation, source, data, keys, faults)
    arguments = get_args(annotation)
    origin = get_origin(annotation)
    if origin is list and isinstance(data, list):
        return [_inside(arguments[0], source, item, (*keys, index), faults) for index, item in enumerate(data)]
    if origin is dict and isinstance(data, dict):
        return {key: _inside(arguments[1], source, item, (*keys, key), faults) for key, item in data.items()}
    if origin is typing.Annotated:
        return _inside(arguments[0], source, data, keys, faults)
    if origin in {typing.Union, types.UnionType}:
        for argument in arguments:
            data = _inside(argument, source, data, keys, faults)
    return data
