"""Modules and functions stay small enough to be read. What is over a limit stands in a list that may only shrink."""

import ast
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "mst"
MODULE_LINES = 600
FUNCTION_LINES = 80
LONG_FUNCTION_LINES = 50
LONG_FUNCTIONS_SHARE = 0.04

ALLOWED: dict[str, int] = {}
"""Module, or `module function`, with the lines that it has. Nothing may grow, and what got smaller leaves the list."""


def over_limits(root):
    """What is too long, with its lines; and the lengths of all functions."""
    found, lengths = {}, []
    for path in sorted(root.rglob("*.py")):
        text = path.read_text()
        name = path.relative_to(root).as_posix()
        if (lines := text.count("\n")) > MODULE_LINES:
            found[name] = lines
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                length = (node.end_lineno or node.lineno) - node.lineno + 1
                lengths.append(length)
                if length > FUNCTION_LINES:
                    found[f"{name} {node.name}"] = length
    return found, lengths


def test_nothing_is_longer_than_its_limit():
    found, _ = over_limits(PACKAGE)
    assert found == ALLOWED


def test_few_functions_are_long():
    _, lengths = over_limits(PACKAGE)
    assert sum(length > LONG_FUNCTION_LINES for length in lengths) / len(lengths) < LONG_FUNCTIONS_SHARE


@pytest.mark.parametrize(
    ("text", "name"),
    [("x = 1\n" * 601, "a.py"), ("def long():\n" + "    x = 1\n" * 80, "a.py long"), ("x = 1\n" * 600, None)],
)
def test_the_check_sees_what_is_too_long(tmp_path, text, name):
    (tmp_path / "a.py").write_text(text)
    assert list(over_limits(tmp_path)[0]) == ([name] if name else [])
