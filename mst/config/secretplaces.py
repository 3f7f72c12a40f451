"""Where a config asks for secrets, so that whoever lacks one finds the line."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from mst.config.layers import Layers
from mst.config.secrets import client_secrets
from mst.config.source import Keys
from mst.model.case import EvalPlan, GraderSpec


def secret_places(layers: Layers, plan: EvalPlan) -> dict[str, str]:
    """`eval.yaml:18` by name: where it is written, else the judge or variant that brings it; the first of several."""
    found: dict[str, str] = {}
    for keys, name in [*_written(layers.written, ()), *_implied(layers.written, plan)]:
        source = layers.origins.get(str(keys[0]), layers.origin).source
        found.setdefault(name, source.place(keys))
    return found


def _written(value: Any, keys: Keys) -> Iterator[tuple[Keys, str]]:
    """References `{secret: NAME}` and names in lists under `secrets`; the config's own list last: it says no more."""
    if isinstance(value, Mapping):
        if set(value) == {"secret"} and isinstance(value["secret"], str):
            yield keys, value["secret"]
            return
        for key, item in sorted(value.items(), key=lambda entry: not keys and entry[0] == "secrets"):
            if key == "secrets" and isinstance(item, list):
                yield from (((*keys, key, index), name) for index, name in enumerate(item) if isinstance(name, str))
            else:
                yield from _written(item, (*keys, key))
    elif isinstance(value, list):
        for index, item in enumerate(value):
            yield from _written(item, (*keys, index))


def _implied(written: Mapping[str, Any], plan: EvalPlan) -> Iterator[tuple[Keys, str]]:
    """Secrets that nobody wrote down: a model's provider brings the name of its key."""
    variants = written.get("variants") or []
    for index, variant in enumerate(plan.variants):
        own: Keys = ("variants", index) if index < len(variants) else ()
        has_judges = bool(own) and "judges" in variants[index]
        yield from _of_graders(variant.judges, (*own, "judges") if has_judges else ("judges",))
        yield from ((own or ("client",), name) for name in sorted(client_secrets(variant)))
    yield from _of_graders(plan.pairwise_judges, ("pairwise_judges",))


def _of_graders(graders: list[GraderSpec], keys: Keys) -> Iterator[tuple[Keys, str]]:
    for index, grader in enumerate(graders):
        yield from (((*keys, index), name) for name in grader.secrets)
