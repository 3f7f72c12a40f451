"""The old aliases of OSError are gone."""

import ast
import importlib
import sys


def behaviour(mod):
    assert mod.read("missing.txt") is None, "a missing file reads as None"
    assert mod.size("missing.txt") == -1, "a missing file has size -1"
    assert mod.size("mod.py") > 0, "a file that is there has a size"


def clean(tree):
    names = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)}
    assert not names & {"IOError", "EnvironmentError"}, "an alias is left"
    assert "OSError" in names, "OSError is not caught"


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
