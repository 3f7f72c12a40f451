"""Variants as patches: merged over the config, guarded by `vary`, and shown as a table of differences. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from mst.model.base import canonical
from mst.model.case import Case, EvalPlan, Variant

NOT_COMPARED = frozenset({"name", "description"})


@dataclass(frozen=True)
class Difference:
    """One resolved field in which variants differ.

    Attributes:
        field: dotted path, as `client_options.argv`.
        values: what each variant has, by name; a variant without the field is absent.
    """

    field: str
    values: Mapping[str, Any]


def merge(base: Any, patch: Any) -> Any:
    """A patch over a base: mappings merge key by key, lists and scalars replace. `{secret: NAME}` is a scalar."""
    if isinstance(base, dict) and isinstance(patch, dict) and not _is_reference(base) and not _is_reference(patch):
        return {**base, **{key: merge(base[key], value) if key in base else value for key, value in patch.items()}}
    return patch


def _is_reference(value: dict[str, Any]) -> bool:
    return set(value) == {"secret"}


STAND_INS = frozenset({"oracle", "noop"})
"""Clients that check cases rather than answer them: a case can't replace them."""


def variant_for(variant: Variant, case: Case) -> Variant:
    """The variant on one case: the case's own client, model and client options win."""
    if variant.client in STAND_INS or not (case.client or case.model or case.client_options):
        return variant
    # Options of one client mean nothing to another: a case that brings its own client starts from nothing.
    base = variant.client_options if case.client in {None, variant.client} else {}
    return variant.model_copy(
        update={
            "client": case.client or variant.client,
            "model": case.model or variant.model,
            "client_options": merge(base, case.client_options),
        }
    )


def variants_for(plan: EvalPlan, case: Case) -> list[Variant]:
    """All variants on one case; see `variant_for`."""
    return [variant_for(variant, case) for variant in plan.variants]


def differences(variants: Sequence[Variant]) -> list[Difference]:
    """Every field that is not equal in all variants, in the order of fields."""
    flat = {variant.name: flatten(variant) for variant in variants}
    fields = dict.fromkeys(field for values in flat.values() for field in values)
    found = [
        Difference(field, {name: values[field] for name, values in flat.items() if field in values}) for field in fields
    ]
    return [difference for difference in found if not _is_equal(difference, len(variants))]


def flatten(variant: Variant) -> dict[str, Any]:
    """Leaves of a resolved variant by dotted path, in snake_case. Lists are leaves."""
    data = variant.model_dump(mode="json", by_alias=False, exclude_none=True)
    found: dict[str, Any] = {}
    _flatten({key: value for key, value in data.items() if key not in NOT_COMPARED}, "", found)
    return found


def _flatten(value: dict[str, Any], prefix: str, found: dict[str, Any]) -> None:
    for key, item in value.items():
        if isinstance(item, dict) and item and not _is_reference(item):
            _flatten(item, f"{prefix}{key}.", found)
        elif item not in ({}, []):
            found[f"{prefix}{key}"] = item


def _is_equal(difference: Difference, count: int) -> bool:
    values = list(difference.values.values())
    return len(values) == count and len({canonical(value) for value in values}) == 1


def unexpected(found: Iterable[Difference], vary: Iterable[str]) -> list[Difference]:
    """Differences that `vary` does not allow. An entry covers its field and everything below it."""
    allowed = list(vary)
    return [
        difference
        for difference in found
        if not any(difference.field == entry or difference.field.startswith(f"{entry}.") for entry in allowed)
    ]
