"""Configs that the documentation shows are read as they stand.

The tables of docs/reference/eval-config.md are made from the models: `MST_UPDATE_DOCS=1` writes them anew.
"""

from __future__ import annotations

import importlib
import os
import re
import types
import typing
from pathlib import Path

import pytest
import yaml
from pydantic_core import PydanticUndefined

from mst.config.resolve import load_eval
from mst.errors import ConfigError
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


DOCS = Path(__file__).parents[3] / "docs"
BLOCK = re.compile(r"^```yaml\n(.*?)^```", re.DOTALL | re.MULTILINE)
OF_CI = "results-in-ci.md"
CLIENTS = {"case_id": "import", "only_tools": "llm", 'image: "tickets': "mcp"}
"""What a block that names no client is about, by something that it says."""
PARTS = [
    pytest.param(block, id=f"{page.stem}-{number}")
    for page in sorted(
        [*(DOCS / "how-to").glob("*.md"), *(DOCS / "reference").glob("*.md"), *DOCS.glob("tutorial/*.md")]
    )
    for number, block in enumerate(BLOCK.findall(page.read_text()))
    if page.name != OF_CI
]


@pytest.mark.parametrize("block", PARTS)
def test_parts_of_configs_that_are_shown_are_read(tmp_path, block):
    shown = yaml.safe_load(block)
    client = next((name for said, name in CLIENTS.items() if said in block), "command")
    base = {"name": "shown", "datasets": ["cases.yaml"], "client": client, "model": "openai:m"}
    if "client" not in shown and client == "command":
        base["client_options"] = {"argv": ["true"]}
    (tmp_path / "cases.yaml").write_text("- {id: a, input: b, expected: c}\n")
    (tmp_path / "eval.yaml").write_text(yaml.safe_dump({**base, **shown}, sort_keys=False))
    try:
        load_eval(tmp_path / "eval.yaml").close()
    except ConfigError as error:
        # files that the page tells of are not here; everything else must be as it stands
        other = [
            fault for fault in error.faults if not re.search(r"no (such )?(file|folder)|should not be empty", fault)
        ]
        assert other == []
