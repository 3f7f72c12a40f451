"""Assertions, judges and pairwise judges as written, in any of the accepted forms, to grader specs."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, Field, ValidationError

from mst.config import registry
from mst.config.evalconfig import Positive, Seconds, SecretName, Share
from mst.config.faults import pydantic_faults
from mst.config.listing import Origin, listed
from mst.config.programs import check_arguments, python_files
from mst.config.source import Keys, nearest, snake
from mst.config.written import Written, tidy
from mst.errors import ConfigError
from mst.model.base import FileRef
from mst.model.case import GraderSpec

GraderKind = Literal["assertions", "judges", "pairwise_judges"]


class AssertionSettings(Written):
    """What may stand beside an assertion's type."""

    name: Annotated[str, Field(min_length=1)] | None = None
    files: list[str] = []
    secrets: list[SecretName] = []
    timeout_s: Seconds | None = None
    version: str | None = None


class JudgeSettings(AssertionSettings):
    """What may stand beside a judge's type."""

    threshold: Share = 0.7
    reps: Positive = 1
    requires: list[str] = []
    retries: Annotated[int, Field(ge=0, le=10)] = 0
    reference: Any = None
    providers: list[Any] = []
    max_tool_output: Positive | None = None


class PairwiseSettings(JudgeSettings):
    """What may stand beside a pairwise judge's type."""

    swap: bool = True
    pairing: Literal["index", "last", "all"] = "index"


SETTINGS: dict[GraderKind, type[AssertionSettings]] = {
    "assertions": AssertionSettings,
    "judges": JudgeSettings,
    "pairwise_judges": PairwiseSettings,
}
OWN_OPTIONS = ("reference", "providers", "max_tool_output")
"""Settings that only some judges know: they are options to them, and unknown keys to the others."""
INSIDE = ("files", "secrets")
"""Settings that are also read among the options."""


def read_graders(kind: GraderKind, data: Any, origin: Origin, keys: Keys) -> list[GraderSpec]:
    """The graders of a list of entries; of assertions also the mapping form. Faults are noted in the origin."""
    if data is None:
        return []
    if kind == "assertions" and isinstance(data, dict):
        entries = [({key: value}, keys) for key, value in data.items()]
    elif isinstance(data, list):
        entries = [(entry, (*keys, index)) for index, entry in enumerate(data)]
    else:
        origin.fault(keys, "should be a list")
        return []
    specs = [_read(kind, entry, origin, place) for entry, place in entries]
    found = [spec for spec in specs if spec is not None]
    _check_names(kind, found, origin, keys)
    return found


def _read(kind: GraderKind, entry: Any, origin: Origin, keys: Keys) -> GraderSpec | None:
    before = len(origin.faults)
    taken = _take_apart(kind, entry, origin, keys)
    if taken is None:
        return None
    type_name, options, settings, options_keys = taken
    extension = find_extension(kind, type_name, origin, options_keys)
    if extension is None:
        return None
    if isinstance(options, dict):
        options, settings = _move(options, settings)
    known = _settings(SETTINGS[kind], settings, origin, keys)
    if known is None:
        return None
    for name in OWN_OPTIONS:
        if name in known.model_fields_set:
            options = {**(options if isinstance(options, dict) else {}), name: getattr(known, name)}
    loaded = extension.load()
    checked = check_options(loaded, options, origin, options_keys)
    if checked is None or len(origin.faults) > before:
        return None
    spec = _spec(extension, checked, known, origin, keys, options_keys)
    return None if spec is None else _of_its_own(spec, loaded)


def _of_its_own(spec: GraderSpec, loaded: Any) -> GraderSpec:
    """A spec with what its judge brings by itself: secrets that its options ask for, the hash of its prompts."""
    update: dict[str, Any] = {}
    if (secrets_of := getattr(loaded, "secrets_of", None)) is not None:
        secrets = sorted({*spec.secrets, *secrets_of(spec.options)})
        update = {"secrets": secrets} if secrets != spec.secrets else {}
        if update and spec.given is not None:
            update["given"] = sorted({*spec.given, "secrets"})
    prompt_hash_of = getattr(loaded, "prompt_hash_of", lambda _options: getattr(loaded, "PROMPT_HASH", None))
    if (prompt_hash := prompt_hash_of(spec.options)) is not None:
        update["prompt_hash"] = prompt_hash
    return spec.model_copy(update=update) if update else spec


def _spec(
    extension: registry.Extension,
    options: dict[str, Any],
    settings: AssertionSettings,
    origin: Origin,
    keys: Keys,
    options_keys: Keys,
) -> GraderSpec | None:
    before = len(origin.faults)
    files: list[FileRef] = listed(origin, settings.files, _existing(origin, (*options_keys, "files"), (*keys, "files")))
    files += python_files(origin, extension, options, files, options_keys)
    check_arguments(origin, options, files, options_keys)
    if len(origin.faults) > before:
        return None
    own = {"name", "threshold", "reps", "requires", "timeout_s", "retries", "swap", "pairing", "secrets", "version"}
    given = settings.model_fields_set & own
    return GraderSpec(
        type=extension.name,
        options=options,
        files=files,
        plugin_version=extension.version,
        given=None if extension.kind == "assertions" else sorted({*given, *_filled(options=options, files=files)}),
        **{name: getattr(settings, name) for name in given},
    )


def _filled(**values: Any) -> list[str]:
    return [name for name, value in values.items() if value]


def _take_apart(
    kind: GraderKind, entry: Any, origin: Origin, keys: Keys
) -> tuple[str, Any, dict[str, Any], Keys] | None:
    """Type, options, settings and the place of the options."""
    if isinstance(entry, str):
        return entry, {}, {}, keys
    if not isinstance(entry, dict):
        origin.fault(keys, "should be a name or a mapping")
        return None
    fields = SETTINGS[kind].model_fields
    settings = {key: value for key, value in entry.items() if snake(key) in fields}
    rest = {key: value for key, value in entry.items() if key not in settings}
    if "type" in rest:
        return _typed(rest, settings, origin, keys)
    if len(rest) == 1:
        type_name, options = next(iter(rest.items()))
        return type_name, options, settings, (*keys, type_name)
    if not rest:
        origin.fault(keys, f"names no {registry.SINGULAR[kind].replace('_', ' ')}: one of {_known(kind)}")
        return None
    types = [key for key in rest if snake(key) in registry.BUILT_IN[kind] or "/" in key]
    if len(types) == 1:
        for key in rest.keys() - set(types):
            origin.fault((*keys, key), f"unknown key {key!r}{nearest(snake(key), fields)}")
    else:
        origin.fault(keys, f"one grader for each entry, not {len(rest)}: {', '.join(map(repr, rest))}")
    return None


def _typed(
    rest: dict[str, Any], settings: dict[str, Any], origin: Origin, keys: Keys
) -> tuple[str, Any, dict[str, Any], Keys] | None:
    own = {key: value for key, value in rest.items() if key not in {"type", "options"}}
    options = rest.get("options", {})
    if not isinstance(rest["type"], str) or not isinstance(options, dict):
        origin.fault(keys, "'type' should be a text and 'options' a mapping")
        return None
    return rest["type"], {**own, **options}, settings, (*keys, "options") if "options" in rest else keys


def find_extension(kind: registry.Kind, name: str, origin: Origin, keys: Keys) -> registry.Extension | None:
    """The extension of a name as written in a config; a plugin's only when the config lists the plugin."""
    name = name if "/" in name else snake(name) if snake(name) in registry.BUILT_IN[kind] else name
    try:
        extension = registry.find(kind, name)
    except ConfigError as error:
        origin.fault(keys, str(error))
        return None
    if extension.plugin is not None and extension.plugin not in origin.plugins:
        origin.fault(
            keys, f"{name!r} is of a plugin that the config does not list; add it: plugins: [{extension.plugin}]"
        )
        return None
    return extension


def check_options(extension: Any, options: Any, origin: Origin, keys: Keys) -> dict[str, Any] | None:
    """Options in snake_case after the extension's schema agreed; unknown keys are refused. Defaults are not added.

    A bare value, as in `contains_text: ok`, is for the option that the schema calls its `main` one.
    """
    model: type[BaseModel] = extension.Options
    faults: list[str] = []  # of keys; then faults of the whole often only follow from them
    bare = ""
    if options is None:
        options = {}
    elif not isinstance(options, dict):
        bare = getattr(model, "main", "")
        if not bare:
            origin.fault(keys, "should be a mapping of options")
            return None
        options = {bare: options}
    tidied = tidy(model, origin.source, options, keys, faults)
    try:
        model.model_validate(tidied)
    except ValidationError as error:
        faults += pydantic_faults(error, tidied, origin.source, keys, whole=not faults, main=bare)
    if not faults:
        return dict(tidied)
    origin.faults.extend(dict.fromkeys(faults))
    return None


def _settings(
    model: type[AssertionSettings], data: dict[str, Any], origin: Origin, keys: Keys
) -> AssertionSettings | None:
    faults: list[str] = []
    tidied = tidy(model, origin.source, data, keys, faults)
    try:
        value = model.model_validate(tidied)
    except ValidationError as error:
        faults += pydantic_faults(error, tidied, origin.source, keys)
        value = None
    origin.faults.extend(faults)
    return value if not faults else None


def _move(options: dict[str, Any], settings: dict[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    inside = {key: options[key] for key in INSIDE if key in options}
    return {key: value for key, value in options.items() if key not in inside}, {**inside, **settings}


def _existing(origin: Origin, *places: Keys) -> Keys:
    return next((keys for keys in places if origin.source.has(keys)), places[-1])


def _check_names(kind: GraderKind, specs: list[GraderSpec], origin: Origin, keys: Keys) -> None:
    if kind == "assertions":
        names = [spec.name for spec in specs if spec.name]
    else:
        names = [spec.name or spec.type for spec in specs]
    for name in sorted({name for name in names if names.count(name) > 1}):
        what = registry.SINGULAR[kind].replace("_", " ")
        origin.fault(keys, f"two {what}s are called {name!r}; give each its own 'name'")


def _known(kind: GraderKind) -> str:
    return ", ".join(registry.BUILT_IN[kind])
