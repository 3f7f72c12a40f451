"""The condition of the query is still built by ==."""

import ast
import importlib
import sys

ROWS = [{"id": 1, "finished": None}, {"id": 2, "finished": "monday"}]


def behaviour(mod):
    assert mod.open_tasks(ROWS) == [ROWS[0]], "exactly the task that is not finished is open"


def clean(tree):
    compared = [node for node in ast.walk(tree) if isinstance(node, ast.Compare)]
    assert [type(op) for node in compared for op in node.ops] == [ast.Eq], "the condition is no longer built by =="


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
