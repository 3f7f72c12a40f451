"""Two calls no longer share one list."""

import ast
import importlib
import sys


def behaviour(mod):
    assert mod.collect(1) == [1], "the first call starts empty"
    assert mod.collect(2) == [2], "so does the second"
    given = [0]
    assert mod.collect(1, given) is given, "a list that is passed is filled"


def clean(tree):
    defaults = [default for node in ast.walk(tree) if isinstance(node, ast.arguments) for default in node.defaults]
    assert not any(isinstance(default, ast.List | ast.Call) for default in defaults), "a default can change"


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
