"""The abstract method raises an exception that is one."""

import ast
import importlib
import sys


def behaviour(mod):
    assert mod.Memory(a=1).get("a") == 1, "the subclass works"
    try:
        mod.Store().get("a")
    except NotImplementedError:
        return
    raise AssertionError("Store.get did not raise")


def clean(tree):
    names = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)}
    assert "NotImplemented" not in names, "NotImplemented is no exception"


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
