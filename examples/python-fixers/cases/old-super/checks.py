"""super() is called without arguments."""

import ast
import importlib
import sys


def behaviour(mod):
    assert mod.Doubling(2).add() == 6, "2 doubled and twice one more is 6"


def clean(tree):
    calls = [node for node in ast.walk(tree) if isinstance(node, ast.Call) and ast.unparse(node.func) == "super"]
    assert len(calls) == 3, f"{len(calls)} calls of super instead of 3"
    assert not any(call.args for call in calls), "super still has arguments"


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
