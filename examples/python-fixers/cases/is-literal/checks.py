"""A text is compared by value."""

import ast
import importlib
import sys


def behaviour(mod):
    assert mod.workers("".join(["fa", "st"])) == 8, "an equal text that is another object counts"
    assert mod.workers("slow") == 1, "other modes get one worker"


def clean(tree):
    assert not any(isinstance(node, ast.Is | ast.IsNot) for node in ast.walk(tree)), "identity is still compared"


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
