"""Membership and identity are negated by the operators made for it."""

import ast
import importlib
import sys


def behaviour(mod):
    assert mod.denied("eve", ["ada"]) is True, "eve is not on the list"
    assert mod.denied("ada", ["ada"]) is False, "ada is"
    assert mod.changed([], []) is True, "two lists are not one"


def clean(tree):
    assert not any(isinstance(node, ast.Not) for node in ast.walk(tree)), "a leading not is left"


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
