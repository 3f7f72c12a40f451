"""Values of an eval config that are allowed and probably not meant: a warning for each."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from mst.config.recorded import credential_paths
from mst.config.source import Keys, dotted
from mst.model.case import EvalPlan, GraderSpec

SHELL_VARIABLE = re.compile(r"\$(\w+|\{\w+\})", re.ASCII)
OF_ENVIRONMENT = frozenset({"env", "headers"})
"""Mappings whose values people expect to come from the environment, as in a shell or a compose file."""


def doubts(plan: EvalPlan) -> list[str]:
    """Warnings about values that look like credentials, or like variables that somebody should fill in."""
    found: dict[str, list[str]] = {}
    for variant in plan.variants:
        parts = {"client_options": variant.client_options, "servers": variant.servers, "env": variant.env}
        for doubt in _of_variant(parts):
            found.setdefault(doubt, []).append(repr(variant.name))
    specs: list[GraderSpec] = [*plan.assertions, *plan.pairwise_judges]
    return [
        *(f"variant{'' if len(names) == 1 else 's'} {', '.join(names)}: {doubt}" for doubt, names in found.items()),
        *(
            f"{spec.name or spec.type}: options.{_credential(keys)}"
            for spec in specs
            for keys in credential_paths(spec.options, names=spec.secrets)
        ),
    ]


def _of_variant(parts: dict[str, Any]) -> Iterator[str]:
    variables = dict(_variables(parts, ()))
    for keys in credential_paths(parts):
        if keys not in variables:
            yield _credential(keys)
    for keys, text in variables.items():
        yield (
            f"{dotted(keys)} is the text {text!r} as it stands; for a value from outside write "
            f"{{secret: {text.strip('${}')}}}"
        )


def _credential(keys: Keys) -> str:
    return f"{dotted(keys)} looks like a credential; write {{secret: NAME}} and pass its value with --secrets-file"


def _variables(value: Any, keys: Keys) -> Iterator[tuple[Keys, str]]:
    if not isinstance(value, dict):
        return
    for name, item in value.items():
        if isinstance(item, str) and keys and keys[-1] in OF_ENVIRONMENT and SHELL_VARIABLE.fullmatch(item):
            yield (*keys, name), item
        else:
            yield from _variables(item, (*keys, name))
