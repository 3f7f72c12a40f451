"""Texts that can be written as UTF-8. JSON can hold halves of characters, and programs send them. Pure."""

from __future__ import annotations

from typing import Any, TypeVar

from mst.model.base import Model

ModelT = TypeVar("ModelT", bound=Model)


def sound(text: str) -> str:
    """A text that can be written: halves of surrogate pairs become U+FFFD."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return text


def sound_data(value: Any) -> Any:
    """A JSON-like value with every text in it sound, keys included. Other types pass as they are."""
    if isinstance(value, str):
        return sound(value)
    if isinstance(value, dict):
        return {sound_data(key): sound_data(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [sound_data(item) for item in value]
    return value


def sound_model(value: ModelT) -> ModelT:
    """The same document, which can be written. One that can be already costs one attempt at writing it."""
    try:
        value.to_json()
    except ValueError:  # the serializer's error about a text that is not UTF-8
        return type(value).model_validate(sound_data(value.model_dump(by_alias=False)))
    return value
