"""A variant as one case sees it: a case may bring its own client, model and client options. Pure."""

from __future__ import annotations

from typing import Any

from mst.model.base import canonical, digest_bytes
from mst.model.case import Case, Variant

STAND_INS = frozenset({"oracle", "noop"})
"""Clients that check cases rather than answer them: a case can't replace them."""


def effective_variant(case: Case, variant: Variant) -> Variant:
    """The variant with the case's own `client`, `model` and `client_options` applied.

    Options merge key by key with the variant's when the client stays the same, and replace them when it does not.
    """
    if variant.client in STAND_INS or not (case.client or case.model or case.client_options):
        return variant
    client = case.client or variant.client
    given = variant.client_options if client == variant.client else {}
    return variant.model_copy(
        update={
            "client": client,
            "model": case.model or variant.model,
            "client_options": merged(given, case.client_options),
        }
    )


def client_key(case: Case, variant: Variant) -> str:
    """Equal for trials that can share a client: the variant's name, with the case's overrides if it has any."""
    if variant.client in STAND_INS or not (case.client or case.model or case.client_options):
        return variant.name
    overrides = {"client": case.client, "model": case.model, "options": case.client_options}
    return f"{variant.name}\0{digest_bytes(canonical(overrides))}"


def merged(base: dict[str, Any], patch: dict[str, Any]) -> dict[str, Any]:
    """Mappings merged key by key; lists and scalars of the patch replace."""
    result = dict(base)
    for key, value in patch.items():
        old = result.get(key)
        result[key] = merged(old, value) if isinstance(old, dict) and isinstance(value, dict) else value
    return result
