"""getattr is left only where the name varies."""

import ast
import importlib
import sys
import types


def behaviour(mod):
    point = types.SimpleNamespace(x=1, y=2)
    assert mod.shifted(point, 10) == (11, 12), "both axes are shifted"
    assert mod.value(point, "y") == 2, "an axis can be chosen"


def clean(tree):
    calls = [node for node in ast.walk(tree) if isinstance(node, ast.Call) and ast.unparse(node.func) == "getattr"]
    assert [ast.unparse(call.args[1]) for call in calls] == ["axis"], f"{len(calls)} calls of getattr"


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
