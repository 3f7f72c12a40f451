"""A config file with the shared ones that it extends: which keys come from where."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from mst.config import reference
from mst.config import source as sources
from mst.config.evalconfig import EvalConfig, SharedConfig
from mst.config.faults import pydantic_faults
from mst.config.files import IndexedFiles
from mst.config.listing import Origin
from mst.config.written import parse
from mst.errors import ConfigError


@dataclass(frozen=True)
class Layers:
    """A config with `extends` applied.

    Attributes:
        written: as written, in snake_case, without defaults and without `extends`.
        origin: of the config itself.
        origins: of each top-level key: the file that it was taken from.
        warnings: about keys that mean nothing here.
    """

    config: EvalConfig
    written: dict[str, Any]
    origin: Origin
    origins: dict[str, Origin]
    warnings: list[str]


def read_layers(path: Path, files: IndexedFiles) -> Layers:
    """Read a config and what it extends. Top-level keys of the config replace those of a shared file.

    Raises:
        ConfigError: every fault of every file that could be read.
    """
    source, warnings = reference.translate(_mapping(sources.read(path)))
    own = parse(EvalConfig, source, source.data)
    faults: list[str] = []
    origin = Origin(source=source, root=path.parent, files=files, plugins=frozenset(own.plugins), faults=faults)
    written: dict[str, Any] = {}
    origins: dict[str, Origin] = {}
    for index, name in enumerate(own.extends):
        try:
            shared, more = _shared(path.parent / name)
        except ConfigError as error:
            faults += [f"{source.place(('extends', index))}: extends: {fault}" for fault in error.faults]
            continue
        warnings += more
        given = parse(SharedConfig, shared, shared.data).given()
        written.update(given)
        origins.update(dict.fromkeys(given, origin.at(shared, shared.path.parent)))
    if faults:
        raise ConfigError(*faults)
    given = own.given()
    given.pop("extends", None)
    written.update(given)
    origins.update(dict.fromkeys(given, origin))
    try:
        config = EvalConfig.model_validate(written)
    except ValidationError as error:
        raise ConfigError(*pydantic_faults(error, written, source)) from None
    return Layers(config=config, written=written, origin=origin, origins=origins, warnings=warnings)


def _shared(path: Path) -> tuple[sources.Source, list[str]]:
    source, warnings = reference.translate(_mapping(sources.read(path)))
    own_only = set(EvalConfig.model_fields) - set(SharedConfig.model_fields)
    for key in source.data:
        if sources.snaked([key])[0] in own_only:
            raise ConfigError(f"{source.place((key,))}: a shared config cannot set {key!r}")
    return source, warnings


def _mapping(source: sources.Source) -> sources.Source:
    if not isinstance(source.data, dict):
        raise ConfigError(f"{source.name}: a config should be a mapping of keys; see `mst init` for an example")
    return source


def eval_name(path: Path) -> str:
    """The name of the eval that a config describes, without resolving it.

    Raises:
        ConfigError: see `read_layers`.
    """
    return read_layers(path, IndexedFiles()).config.name
