"""`{{workspace}}`, `{{input}}`, `{{input.KEY}}` and `{{python}}`: filled in per argument, never through a shell."""

from __future__ import annotations

import json
import re
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mst.errors import ClientError

_PLACEHOLDER = re.compile(r"\{\{\s*(workspace|python|input(?:\.[^{}\s]+)?)\s*\}\}")
DEFAULT_TEMPLATE = "{{input}}"


@dataclass(frozen=True, kw_only=True)
class Values:
    """What placeholders stand for.

    Attributes:
        input: the case's input, for `{{input.KEY}}`.
        prompt: what `{{input}}` stands for.
        workspace: None when there is none, or not yet.
        python: where the programs run.
    """

    input: str | dict[str, Any]
    prompt: str
    workspace: Path | None = None
    python: str = sys.executable


def substitute(text: str, values: Values) -> str:
    """Fill in every placeholder once; what was filled in is not looked at again. Other braces stay as they are.

    Raises:
        ClientError: `harness`: the input has no such key, or there is no workspace.
    """
    return _PLACEHOLDER.sub(lambda found: _lookup(found[1], values), text) if "{{" in text else text


def substitute_data(value: Any, values: Values) -> Any:
    """The same in every text of a JSON-like value; keys stay."""
    if isinstance(value, str):
        return substitute(value, values)
    if isinstance(value, dict):
        return {key: substitute_data(item, values) for key, item in value.items()}
    if isinstance(value, list):
        return [substitute_data(item, values) for item in value]
    return value


def render_prompt(template: str | None, case_input: str | dict[str, Any]) -> str:
    """A case's input through a variant's template; a mapping becomes JSON with its keys in the case's order.

    Raises:
        ClientError: `harness`: the input has no key that the template names.
    """
    text = as_text(case_input)
    if template is None or template == DEFAULT_TEMPLATE:
        return text
    return substitute(template, Values(input=case_input, prompt=text))


def as_text(value: Any) -> str:
    """A text as it is, anything else as JSON."""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def names_workspace(text: str) -> bool:
    """Whether a text has the placeholder of the workspace."""
    return any(found == "workspace" for found in _PLACEHOLDER.findall(text))


def _lookup(name: str, values: Values) -> str:
    if name == "python":
        return values.python
    if name == "input":
        return values.prompt
    if name == "workspace":
        if values.workspace is None:
            raise ClientError("{{workspace}} is used where there is no workspace", "harness")
        return str(values.workspace)
    found: Any = values.input
    for part in name.split(".")[1:]:
        if not isinstance(found, dict) or part not in found:
            raise ClientError(f"{{{{{name}}}}}: the case's input has no such key", "harness")
        found = found[part]
    return as_text(found)
