"""The tables of docs/reference/eval-config.md are made from the models. `MST_UPDATE_DOCS=1` writes them anew."""

from __future__ import annotations

import importlib
import os
import re
import types
import typing
from pathlib import Path

from pydantic_core import PydanticUndefined

from mst.model.described import meanings

PAGE = Path(__file__).parents[3] / "docs" / "reference" / "eval-config.md"
TABLE = re.compile(r"<!-- table: (?P<target>\S+) -->\n.*?<!-- end -->", re.DOTALL)
WORDS = {str: "text", int: "integer", float: "number", bool: "true or false"}


def said(annotation) -> str:
    origin, arguments = typing.get_origin(annotation), typing.get_args(annotation)
    if origin is typing.Annotated:
        return said(arguments[0])
    if origin in {typing.Union, types.UnionType}:
        return " or ".join(said(argument) for argument in arguments if argument is not type(None))
    if origin is typing.Literal:
        return ", ".join(f"`{argument}`" for argument in arguments)
    if origin is list:
        return f"list of {said(arguments[0])}"
    if annotation is dict or origin is dict or hasattr(annotation, "model_fields"):
        return "mapping"
    return WORDS.get(annotation, "see below")


def default(field) -> str:
    if field.is_required():
        return "required"
    value = field.get_default(call_default_factory=True)
    if (
        value is PydanticUndefined
        or value is None
        or value == ""
        or value == []
        or value == {}
        or hasattr(value, "given")
    ):
        return ""
    return f"`{str(value).lower() if isinstance(value, bool) else value}`"


def table(target: str) -> str:
    module, _, name = target.partition(":")
    model = getattr(importlib.import_module(module), name)
    rows = ["| key | type | default | meaning |", "| --- | --- | --- | --- |"]
    for key, field in sorted(model.model_fields.items(), key=lambda item: not item[1].is_required()):
        assert key in meanings(model), f"{target}.{key} has no docstring"
        meaning = " ".join(meanings(model)[key].split())
        rows.append(f"| `{key}` | {said(field.annotation)} | {default(field)} | {meaning} |")
    return "\n".join(rows)


def rendered(text: str) -> str:
    return TABLE.sub(lambda match: f"<!-- table: {match['target']} -->\n{table(match['target'])}\n<!-- end -->", text)


def test_the_tables_of_the_reference_are_those_of_the_models():
    text = PAGE.read_text()
    assert len(TABLE.findall(text)) == 5
    if os.environ.get("MST_UPDATE_DOCS"):
        PAGE.write_text(rendered(text))
    assert PAGE.read_text() == rendered(text), "run this test with MST_UPDATE_DOCS=1"
