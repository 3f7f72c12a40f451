"""The module still finds out whether the extension is installed."""

import ast
import importlib
import sys


def behaviour(mod):
    assert mod.backend() == "pure python", "the extension is not installed"
    sys.modules["fast_sums_extension"] = mod
    assert importlib.reload(mod).backend() == "extension", "now it is"


def clean(tree):
    attempts = [node for node in ast.walk(tree) if isinstance(node, ast.Try)]
    assert any("import fast_sums_extension" in ast.unparse(node) for node in attempts), "nothing is tried"


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
