"""Taking secrets out of what graders found. Keys and words of our own formats stay as they are."""

from __future__ import annotations

from typing import Any, TypeVar

from mst.model.base import Model
from mst.process.redact import Redactor

ModelT = TypeVar("ModelT", bound=Model)
_WORDS = frozenset({"preference", "order"})
"""Fields that hold one of a few fixed words."""


def redacted(value: ModelT, redactor: Redactor) -> ModelT:
    """The same finding without secrets in any of its texts."""
    if not redactor:
        return value
    update = {name: _inside(getattr(value, name), redactor) for name in value.model_fields_set if name not in _WORDS}
    return value.model_copy(update=update)


def _inside(value: Any, redactor: Redactor) -> Any:
    if isinstance(value, Model):
        return redacted(value, redactor)
    if isinstance(value, list) and value and isinstance(value[0], Model):
        return [redacted(item, redactor) for item in value]
    if isinstance(value, dict) and any(isinstance(item, Model) for item in value.values()):
        return {redactor.text(key): _inside(item, redactor) for key, item in value.items()}
    return redactor.data(value)
