"""Nothing is compared with None or True by ==."""

import ast
import importlib
import sys


def behaviour(mod):
    assert [mod.state(switch) for switch in (None, True, False)] == ["unknown", "on", "off"], "wrong states"


def clean(tree):
    for node in ast.walk(tree):
        if isinstance(node, ast.Compare) and any(isinstance(op, ast.Eq | ast.NotEq) for op in node.ops):
            sides = [side.value for side in (node.left, *node.comparators) if isinstance(side, ast.Constant)]
            assert None not in sides and True not in sides, f"left: {ast.unparse(node)}"


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
