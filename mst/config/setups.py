"""The config's base set-up with each variant's patch over it, as typed variants with their files by content."""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated, Any

from pydantic import Field

from mst.config import registry
from mst.config.caseconfig import with_files
from mst.config.evalconfig import SETUP_KEYS, LimitsWritten, SandboxWritten, VariantWritten
from mst.config.graders import check_options, find_extension, read_graders
from mst.config.listing import Origin, folder
from mst.config.programs import check_arguments, python_files
from mst.config.source import Keys, nearest
from mst.config.variants import merge, variant_for
from mst.config.written import Written, parse
from mst.errors import ConfigError
from mst.model.base import FileRef, digest
from mst.model.case import Case, TrialLimits, Variant

DEFAULT_VARIANT = "default"
PLAIN = ("client", "model", "input_template", "tools", "env", "metrics", "expect_used")


class ServerWritten(Written):
    """An MCP server: a program that speaks over stdio, or a URL."""

    command: str | None = None
    args: list[str] | None = None
    env: dict[str, Any] | None = None
    cwd: str | None = None
    image: str | None = None
    url: Annotated[str, Field(pattern=r"^https?://")] | None = None
    headers: dict[str, Any] | None = None


class Base:
    """What every variant starts from. Each top-level key has the origin of the file that it was taken from."""

    def __init__(self, written: dict[str, Any], origins: dict[str, Origin]) -> None:
        self.origins = origins
        self.setup = {key: written[key] for key in SETUP_KEYS if written.get(key) is not None}
        self.resolved = resolved_setup(self.setup, lambda key: (origins[key], (key,)))


def resolved_setup(setup: dict[str, Any], at: Any) -> dict[str, Any]:
    """A set-up with its paths read where it was written: files, overlays and judges as values by content.

    Args:
        setup: as written, without defaults.
        at: origin and path of keys of a top-level key.
    """
    result = dict(setup)
    if "client_options" in setup:
        origin, keys = at("client_options")
        options = with_files(setup["client_options"], origin, keys)
        result["client_options"] = options
    if "files" in setup:
        origin, keys = at("files")
        refs = folder(origin, setup["files"], keys) or []
        result["files"] = [ref.to_dict() for ref in refs]
    if "judges" in setup:
        origin, keys = at("judges")
        result["judges"] = read_graders("judges", setup["judges"], origin, keys)
    if "servers" in setup:
        origin, keys = at("servers")
        if not check_servers(setup["servers"], origin, keys):
            del result["servers"]
    return result


def read_variants(written: list[VariantWritten], base: Base, origin: Origin) -> list[Variant]:
    """All variants, resolved. Faults are noted in the origin; faulty variants are left out."""
    if not written:
        found = _variant(DEFAULT_VARIANT, None, {}, base, origin, ())
        return [found] if found is not None else []
    variants: list[Variant] = []
    names: set[str] = set()
    for index, variant in enumerate(written):
        keys: Keys = ("variants", index)
        if variant.name.casefold() in names:
            origin.fault((*keys, "name"), f"two variants are called {variant.name!r} (ignoring case)")
            continue
        names.add(variant.name.casefold())
        given = {key: value for key, value in variant.given().items() if key in SETUP_KEYS}
        patch = resolved_setup(given, lambda key, keys=keys: (origin, (*keys, key)))
        found = _variant(variant.name, variant.description, patch, base, origin, keys)
        if found is not None:
            variants.append(found)
    return variants


def _variant(
    name: str, description: str | None, patch: dict[str, Any], base: Base, origin: Origin, keys: Keys
) -> Variant | None:
    if isinstance(patch.get("servers"), list):
        patch = {**patch, "servers": _chosen_servers(patch["servers"], base, origin, keys)}
        merged = merge({key: value for key, value in base.resolved.items() if key != "servers"}, patch)
    else:
        merged = merge(base.resolved, patch)
    merged = {key: value for key, value in merged.items() if value is not None}
    if "client" not in merged:
        origin.fault(keys, f"no client is given; add 'client: NAME', one of {', '.join(registry.BUILT_IN['clients'])}")
        return None
    variant = Variant(
        name=name,
        description=description,
        client_options=merged.get("client_options", {}),
        servers=merged.get("servers", {}),
        files=[FileRef.model_validate(ref) for ref in merged.get("files", [])],
        judges=merged.get("judges", []),
        trial_limits=TrialLimits(**LimitsWritten(**merged.get("trial_limits", {})).given()),
        sandbox=SandboxWritten(**merged.get("sandbox", {})).model_dump(exclude_none=True),
        **{key: merged[key] for key in PLAIN if key in merged},
    )
    for option in ("argv", "steps"):
        place = _option_place(option, base, origin, keys)
        only = {option: variant.client_options.get(option)}
        check_arguments(place[0], only, _refs(variant.client_options), place[1])
    client_at = (origin, (*keys, "client"))
    if not origin.source.has(client_at[1]) and "client" in base.origins:
        client_at = (base.origins["client"], ("client",))
    return checked(variant, *_options_place(base, origin, keys), client_at=client_at)


def _options_place(base: Base, origin: Origin, keys: Keys) -> tuple[Origin, Keys]:
    """Where to report faults of a variant's options: in the variant when it sets some, else in the base.

    What the variant has from the base is reported where the base says it, as long as both are in one file.
    """
    own, inherited = (*keys, "client_options"), base.origins.get("client_options")
    if inherited is None:
        return origin, own
    if not origin.source.has(own):
        return inherited, ("client_options",)
    if inherited.source is not origin.source:
        return origin, own
    return replace(origin, source=origin.source.with_places(("client_options",), own)), own


def _option_place(name: str, base: Base, origin: Origin, keys: Keys) -> tuple[Origin, Keys]:
    """The file and mapping that one option was taken from."""
    if not origin.source.has((*keys, "client_options", name)) and "client_options" in base.origins:
        return base.origins["client_options"], ("client_options",)
    return origin, (*keys, "client_options")


def checked(variant: Variant, origin: Origin, keys: Keys, *, client_at: tuple[Origin, Keys]) -> Variant | None:
    """The variant with its client's options in snake_case and its local callables shipped; None when it has faults.

    `origin` and `keys` are the place of the options, `client_at` that of the client.
    """
    extension = find_extension("clients", variant.client, *client_at)
    if extension is None:
        return None
    options = check_options(extension.load(), variant.client_options, origin, keys)
    if options is None:
        return None
    more = python_files(origin, extension, options, _refs(options), keys)
    if more:
        options = {**options, "files": [*options.get("files", []), *(ref.to_dict() for ref in more)]}
    return variant.model_copy(update={"client": extension.name, "client_options": options})


class CaseChecks:
    """Checks what cases set for themselves against every variant, once for each distinct setting."""

    def __init__(self, variants: list[Variant]) -> None:
        self.variants = variants
        self._done: set[str] = set()

    def check(self, case: Case, origin: Origin, place: str) -> None:
        """Note faults of a case's own client and client options."""
        if case.client is None and not case.client_options:
            return
        setting = digest({"client": case.client, "options": case.client_options})
        if setting in self._done:
            return
        self._done.add(setting)
        for variant in self.variants:
            before = len(origin.faults)
            checked(variant_for(variant, case), origin, ("client_options",), client_at=(origin, ("client",)))
            if len(origin.faults) > before:
                fresh = origin.faults[before:]
                del origin.faults[before:]
                origin.faults += [
                    f"{place}: case {case.id!r} with variant {variant.name!r}: {_text(fault)}" for fault in fresh
                ]
                return


def _text(fault: str) -> str:
    return fault.split(": ", 1)[-1]


def check_servers(servers: Any, origin: Origin, keys: Keys) -> bool:
    """Note faults of MCP server declarations. False: not even of the right type."""
    if isinstance(servers, list) and keys[0] == "variants":
        return True  # labels, looked up when the variant is made
    if not isinstance(servers, dict):
        origin.fault(keys, "should be a mapping of labels to servers")
        return False
    for label, server in servers.items():
        place = (*keys, label)
        try:
            written = parse(ServerWritten, origin.source, server, place)
        except ConfigError as error:
            origin.faults.extend(error.faults)
            continue
        if keys[0] == "variants":
            continue  # a patch may name only what is different
        if (written.command is None) == (written.url is None):
            origin.fault(place, "a server has either 'command' or 'url'")
    return True


def _chosen_servers(labels: list[Any], base: Base, origin: Origin, keys: Keys) -> dict[str, Any]:
    known = base.resolved.get("servers", {})
    for index, label in enumerate(labels):
        if not isinstance(label, str) or label not in known:
            origin.fault((*keys, "servers", index), f"no server {label!r}{nearest(str(label), known)}")
    return {label: known[label] for label in labels if isinstance(label, str) and label in known}


def _refs(options: dict[str, Any]) -> list[FileRef]:
    return [FileRef.model_validate(ref) for ref in options.get("files", []) if not isinstance(ref, str)]
