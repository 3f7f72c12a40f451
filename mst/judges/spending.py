"""What several calls used together. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from mst.model.transcript import Usage


def total_usage(usages: Sequence[Usage | None]) -> Usage | None:
    """The sum of what was used; a value that one of them does not know is not known of the sum."""
    known = [usage for usage in usages if usage is not None]
    if not known or len(known) < len(usages):
        return None
    sums: dict[str, Any] = {}
    for field in Usage.model_fields:
        values = [getattr(usage, field) for usage in known]
        sums[field] = None if None in values else sum(values)
    return Usage(**sums)
