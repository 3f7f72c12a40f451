"""What calls of models cost, and what several used together. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from mst.model.transcript import MOST, Usage
from mst.providers.endpoints import Endpoint


def total_usage(usages: Sequence[Usage | None]) -> Usage | None:
    """The sum of what was used; a value that one of them does not know is not known of the sum. See `known_usage`."""
    known = [usage for usage in usages if usage is not None]
    if not known or len(known) < len(usages):
        return None
    sums: dict[str, Any] = {}
    for field in Usage.model_fields:
        values = [getattr(usage, field) for usage in known]
        sums[field] = None if None in values else sum(values)
    return Usage.summed(**sums)


def known_usage(usages: Iterable[Usage | None]) -> Usage | None:
    """The sum of what is known: at least so much was used. A value that nobody knows stays unknown."""
    sums: dict[str, Any] = {}
    for usage in usages:
        if usage is None:
            continue
        for field in Usage.model_fields:
            value = getattr(usage, field)
            if value is not None:
                sums[field] = sums.get(field, 0) + value
    return Usage.summed(**sums) if sums else None


def priced(usage: Usage | None, endpoint: Endpoint, pricing: Mapping[str, Any]) -> Usage | None:
    """Usage with what it cost by the config's prices, when the model has any. Prices are USD per million tokens."""
    return priced_as(usage, (endpoint.model, endpoint.name), pricing)


def priced_as(usage: Usage | None, names: Sequence[str], pricing: Mapping[str, Any]) -> Usage | None:
    """The same for a model that goes by any of these names; the first with a price counts."""
    price = next((pricing[name] for name in names if pricing.get(name)), None)
    if usage is None or not price or usage.input_tokens is None or usage.output_tokens is None:
        return usage
    if price.get("input") is None or price.get("output") is None:
        return usage
    read, made = usage.cache_read_input_tokens or 0, usage.cache_creation_input_tokens or 0
    fresh = max(0, usage.input_tokens - read - made)
    cost = fresh * price["input"] + usage.output_tokens * price["output"]
    cost += read * _or(price.get("cache_read"), price["input"]) + made * _or(price.get("cache_write"), price["input"])
    return usage.model_copy(update={"estimated_cost_usd": min(cost / 1_000_000, MOST)})


def _or(value: float | None, otherwise: float) -> float:
    return otherwise if value is None else value
