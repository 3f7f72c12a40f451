"""No percent formatting is left."""

import ast
import importlib
import sys


def behaviour(mod):
    assert mod.line("size", 3) == "size: 3", "wrong line"
    assert mod.line("at", (1, 2)) == "at: (1, 2)", "a tuple is one value"


def clean(tree):
    assert not any(isinstance(node, ast.Mod) for node in ast.walk(tree)), "a percent operator is left"


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
