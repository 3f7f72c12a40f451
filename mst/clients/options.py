"""What the option schemas of clients share: strict keys, environments with secrets, files by content."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar

from pydantic import ConfigDict, StrictFloat, StrictInt, StrictStr, TypeAdapter, ValidationError

from mst.errors import ClientError, ConfigError
from mst.model.base import FileRef, Model
from mst.model.case import Variant


class Options(Model):
    """Base of option schemas: unknown keys are refused."""

    model_config = ConfigDict(extra="forbid")


class NoOptions(Options):
    """Of a client that takes none."""


class SecretRef(Options):
    """`{secret: NAME}`: the value of a declared secret."""

    secret: str


EnvValue = StrictStr | StrictInt | StrictFloat | SecretRef
Environment = dict[str, EnvValue]
ListedFiles = list[FileRef | str]
"""Paths as written in the config; FileRefs after the config was resolved, which is what trials need."""

_environment: TypeAdapter[Environment] = TypeAdapter(Environment)
OptionsT = TypeVar("OptionsT", bound=Model)


def parse_options(schema: type[OptionsT], variant: Variant) -> OptionsT:
    """A variant's `client_options` under a client's schema.

    Raises:
        ConfigError: a line per fault, with variant, key and reason.
    """
    try:
        return schema.model_validate(variant.client_options)
    except ValidationError as error:
        raise ConfigError(*_faults(error, f"variant {variant.name!r}: client_options")) from error


def variant_environment(variant: Variant) -> Environment:
    """A variant's `env`.

    Raises:
        ConfigError: a value that is neither text, a number nor `{secret: NAME}`.
    """
    try:
        return _environment.validate_python(variant.env)
    except ValidationError as error:
        raise ConfigError(*_faults(error, f"variant {variant.name!r}: env")) from error


def secret_names(environment: Environment) -> list[str]:
    """Names of the secrets that an environment takes, sorted."""
    return sorted({value.secret for value in environment.values() if isinstance(value, SecretRef)})


def fill_environment(environment: Environment, secrets: Mapping[str, str]) -> dict[str, str]:
    """The environment with its secrets' values.

    Raises:
        ClientError: `environment`, naming a secret that has no value.
    """
    return {name: _value(value, secrets) for name, value in environment.items()}


def listed_files(files: ListedFiles) -> list[FileRef]:
    """The files by content.

    Raises:
        ClientError: `harness`: the config was not resolved.
    """
    refs = [file for file in files if isinstance(file, FileRef)]
    if len(refs) != len(files):
        raise ClientError(
            "client_options.files holds paths, not files by content: the config was not resolved", "harness"
        )
    return refs


def _value(value: EnvValue, secrets: Mapping[str, str]) -> str:
    if not isinstance(value, SecretRef):
        return str(value)
    try:
        return secrets[value.secret]
    except KeyError:
        raise ClientError(f"secret {value.secret} has no value; declare it under `secrets` and pass it") from None


def _faults(error: ValidationError, where: str) -> list[str]:
    # A union reports each of its members; the path down to the value is enough, said once.
    found: dict[str, str] = {}
    for fault in error.errors(include_url=False, include_input=False):
        parts = [str(part) for part in fault["loc"]]
        found.setdefault(".".join([where, *parts[:2]]), _message(fault))
    return [f"{place}: {message}" for place, message in found.items()]


def _message(fault: Any) -> str:
    if fault["type"] == "extra_forbidden":
        return "unknown key"
    return str(fault["msg"]).removeprefix("Value error, ")
