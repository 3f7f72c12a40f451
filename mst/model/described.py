"""What fields mean, out of the docstrings below them in the source.

Read when a schema is printed, and not whenever a class is made: pydantic's own `use_attribute_docstrings` parses the
source of every model at every start of the program, which was a quarter of what a shard worker takes to start.
"""

from __future__ import annotations

import ast
import functools
import inspect
import itertools
import textwrap

from pydantic import BaseModel
from pydantic.json_schema import GenerateJsonSchema, JsonSchemaValue
from pydantic_core import core_schema


@functools.cache
def meanings(model: type[BaseModel]) -> dict[str, str]:
    """The docstring of each field that has one, by the field's name; those of its bases too."""
    found: dict[str, str] = {}
    for kind in reversed(model.__mro__):
        if issubclass(kind, BaseModel) and kind is not BaseModel:
            found |= _of_class(kind)
    return {name: text for name, text in found.items() if name in model.model_fields}


def _of_class(kind: type[BaseModel]) -> dict[str, str]:
    try:
        source = textwrap.dedent(inspect.getsource(kind))
    except (OSError, TypeError):  # made while the program runs, so that there is no source
        return {}
    [body] = (node.body for node in ast.parse(source).body if isinstance(node, ast.ClassDef))
    return {
        before.target.id: inspect.cleandoc(after.value.value)
        for before, after in itertools.pairwise(body)
        if isinstance(before, ast.AnnAssign) and isinstance(before.target, ast.Name)
        if isinstance(after, ast.Expr) and isinstance(after.value, ast.Constant) and isinstance(after.value.value, str)
    }


class DescribedSchema(GenerateJsonSchema):
    """Makes JSON Schemas in which every field says what it means."""

    def model_schema(self, schema: core_schema.ModelSchema) -> JsonSchemaValue:
        """See `GenerateJsonSchema.model_schema`."""
        made = super().model_schema(schema)
        model: type[BaseModel] = schema["cls"]
        properties = made.get("properties", {})
        for name, text in meanings(model).items():
            field = model.model_fields[name]
            shown = properties.get(field.alias if self.by_alias and field.alias else name)
            if shown is not None and field.description is None:
                shown["description"] = text
        return made
