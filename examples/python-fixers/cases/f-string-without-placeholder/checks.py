"""Only the f-string with a placeholder is one."""

import ast
import importlib
import sys


def behaviour(mod):
    assert mod.greeting("") == "hello, whoever you are", "wrong greeting without a name"
    assert mod.greeting("Ada") == "hello, Ada", "wrong greeting with a name"


def clean(tree):
    strings = [node for node in ast.walk(tree) if isinstance(node, ast.JoinedStr)]
    assert len(strings) == 1, f"{len(strings)} f-strings instead of 1"


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
