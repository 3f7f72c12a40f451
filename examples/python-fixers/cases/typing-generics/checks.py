"""Annotations use built-in generics, and the typing import went with them."""

import ast
import importlib
import sys


def behaviour(mod):
    assert mod.count(["a", "b", "a"]) == {"a": 2, "b": 1}, "wrong counts"
    assert mod.count.__annotations__ == {"words": list[str], "return": dict[str, int]}, "wrong annotations"


def clean(tree):
    names = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)}
    assert not names & {"Dict", "List"}, "old generics are left"
    assert not any(isinstance(node, ast.ImportFrom) for node in ast.walk(tree)), "typing is still imported"


def check(ctx):
    sys.path.insert(0, str(ctx.workspace))
    return {
        "checks": [
            finding("behaviour", lambda: behaviour(importlib.import_module("mod"))),
            finding("clean", lambda: clean(ast.parse((ctx.workspace / "mod.py").read_bytes()))),
        ]
    }


def finding(name, test):
    """Run one test; whatever goes wrong in the module under test is a failed check."""
    try:
        test()
    except (Exception, SystemExit) as error:
        detail = f"{type(error).__name__}: {error}".replace(f"{sys.path[0]}/", "")  # the folder differs each time
        return {"name": name, "passed": False, "detail": detail}
    return {"name": name, "passed": True, "detail": "as it should be"}
