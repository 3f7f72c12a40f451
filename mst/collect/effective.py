"""A variant as one case sees it: a case may bring its own client, model and client options. Pure."""

from __future__ import annotations

from mst.config.variants import STAND_INS, merge, variant_for
from mst.model.base import canonical, digest_bytes
from mst.model.case import Case, Variant


def effective_variant(case: Case, variant: Variant) -> Variant:
    """The variant with the case's own `client`, `model` and `client_options` applied.

    Options merge key by key with the variant's when the client stays the same, and replace them when it does not.
    """
    return variant_for(variant, case)


def client_key(case: Case, variant: Variant) -> str:
    """Equal for trials that can share a client: the variant's name, with the case's overrides if it has any."""
    if variant.client in STAND_INS or not (case.client or case.model or case.client_options):
        return variant.name
    overrides = {"client": case.client, "model": case.model, "options": case.client_options}
    return f"{variant.name}\0{digest_bytes(canonical(overrides))}"


merged = merge
"""Mappings merged key by key; lists, scalars and `{secret: NAME}` of the patch replace."""
