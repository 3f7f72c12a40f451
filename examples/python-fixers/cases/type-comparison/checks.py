"""Subclasses of str are texts too."""

import ast
import importlib
import sys


class Title(str):
    pass


def behaviour(mod):
    assert mod.cell("a") == "a", "a text is shown as it is"
    assert mod.cell(1) == "1", "anything else as its repr"
    assert mod.cell(Title("b")) == "b", "a subclass of str is a text"


def clean(tree):
    assert not any(isinstance(node, ast.Eq | ast.Is) for node in ast.walk(tree)), "types are still compared"


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
