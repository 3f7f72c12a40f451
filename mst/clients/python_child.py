"""Runs in a child process: calls a Python function for the `python` client and writes its answer to a file.

Started as a script with this file's path, and so imports nothing but the standard library and the user's code.
`argv[1]` is a JSON file with the request, `argv[2]` the file to write:
`{outcome: answered | not loaded | raised, value?}`.
"""

from __future__ import annotations

import asyncio
import importlib
import importlib.util
import inspect
import json
import sys
import traceback
from pathlib import Path
from typing import Any


def main(request_path: str, answer_path: str) -> int:
    """Load, call, write. A function that ends the process itself leaves no answer."""
    request = json.loads(Path(request_path).read_text(encoding="utf-8"))
    answer = _answer(request)
    Path(answer_path).write_text(json.dumps(answer), encoding="utf-8")
    return 0 if answer["outcome"] == "answered" else 1


def _answer(request: dict[str, Any]) -> dict[str, Any]:
    outcome = "not loaded"
    try:
        function = _load(request["function"], request["folder"])
        outcome = "raised"
        value = _call(function, request["input"], request["context"])
        json.dumps(value, allow_nan=False)
    except Exception:  # noqa: BLE001 - the program under test failed; its traceback is the diagnosis
        traceback.print_exc()
        return {"outcome": outcome}
    return {"outcome": "answered", "value": value}


def _load(name: str, folder: str) -> Any:
    where, _, attribute = name.rpartition(":")
    sys.path.insert(0, folder)
    if where.endswith(".py"):
        spec = importlib.util.spec_from_file_location(Path(where).stem, Path(folder) / where)
        assert spec is not None
        assert spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        sys.modules[spec.name] = module
        spec.loader.exec_module(module)
    else:
        module = importlib.import_module(where)
    found: Any = module
    for part in attribute.split("."):
        found = getattr(found, part)
    if not callable(found):
        raise TypeError(f"{name} is not callable")
    return found


def _call(function: Any, case_input: Any, context: dict[str, Any]) -> Any:
    try:
        takes_context = len(inspect.signature(function).parameters) > 1
    except (TypeError, ValueError):
        takes_context = False
    value = function(case_input, context) if takes_context else function(case_input)
    if inspect.iscoroutine(value):
        return asyncio.run(value)
    return value


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:3]))
