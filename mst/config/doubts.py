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
    parts = [
        (f"variant {variant.name!r}", {"client_options": variant.client_options, "servers": variant.servers,
                                       "env": variant.env})
        for variant in plan.variants
    ]  # fmt: skip
    variables = [(where, keys, text) for where, value in parts for keys, text in _variables(value, ())]
    told = {(where, keys) for where, keys, _ in variables}
    found = [(f"{where}: ", keys) for where, value in parts for keys in credential_paths(value)
             if (where, keys) not in told]  # fmt: skip
    specs: list[GraderSpec] = [*plan.assertions, *plan.pairwise_judges]
    found += [
        (f"{spec.name or spec.type}: options.", keys)
        for spec in specs
        for keys in credential_paths(spec.options, names=spec.secrets)
    ]
    return [
        *(
            f"{where}{dotted(keys)} looks like a credential; write {{secret: NAME}} and pass its value with "
            "--secrets-file"
            for where, keys in found
        ),
        *(
            f"{where}: {dotted(keys)} is the text {text!r} as it stands; for a value from outside write "
            f"{{secret: {text.strip('${}')}}}"
            for where, keys, text in variables
        ),
    ]


def _variables(value: Any, keys: Keys) -> Iterator[tuple[Keys, str]]:
    if not isinstance(value, dict):
        return
    for name, item in value.items():
        if isinstance(item, str) and keys and keys[-1] in OF_ENVIRONMENT and SHELL_VARIABLE.fullmatch(item):
            yield (*keys, name), item
        else:
            yield from _variables(item, (*keys, name))
