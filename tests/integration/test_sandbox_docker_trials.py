"""Whole trials in Docker: collected, and graded by programs that run what was left, also in containers."""

from __future__ import annotations

import json

import pytest

from mst.testing.commandline import run_mst
from mst.testing.engine import IMAGE

pytestmark = [pytest.mark.server, pytest.mark.slow, pytest.mark.timeout(900)]

CHECKS = """
import os, subprocess, sys
def check(ctx):
    told = ctx.exec(["sh", "-c", "cat /etc/hostname; cat said"])
    own = ctx.exec(["{{python}}", "-c", "print(6 * 7)"])
    ctx.add_judgment(name="seen", score=0.5, reasoning=told.stdout)
    here = sorted(os.listdir("/sys/class/net"))
    return {"checks": [
        {"name": "where", "passed": told.stdout == "mst\\nhello\\n", "detail": told.stdout},
        {"name": "python", "passed": own.stdout == "42\\n", "detail": own.stderr},
        {"name": "alone", "passed": here == ["lo"], "detail": str(here)},
        {"name": "folder", "passed": os.getcwd() == str(ctx.workspace), "detail": os.getcwd()},
    ]}
"""
LOOKS = """
def looks(ctx):
    return (ctx.workspace / "said").read_text() == "hello\\n"
"""
ASKS = """
def check(ctx):
    try:
        ctx.query("x")
    except Exception:
        return {"checks": [], "passed": True}
"""
LEAVES = "import os; os._exit(3)\n"


@pytest.fixture
def project(docker_host, tmp_path):
    for name, text in {"sound": CHECKS, "asks": ASKS, "leaves": LEAVES}.items():
        folder = tmp_path / "cases" / name
        folder.mkdir(parents=True)
        own = {"image": IMAGE} if name == "sound" else {}
        (folder / "case.yaml").write_text(json.dumps({"input": "hello", **own}))
        (folder / "checks.py").write_text(text)
    (tmp_path / "looks.py").write_text(LOOKS)
    config = {
        "name": "in-docker",
        "datasets": [{"dir": "cases"}],
        "client": "command",
        "client_options": {"argv": ["sh", "-c", "cat > said; echo >> said; hostname"]},
        "sandbox": {"kind": "docker", "image": IMAGE},
        "assertions": [{"python": "./looks.py:looks"}, {"command": {"argv": ["grep", "-q", "hello", "said"]}}],
        "variants": [{"name": "v"}],
    }
    (tmp_path / "eval.yaml").write_text(json.dumps(config))
    return tmp_path


def test_checks_and_assertions_run_in_containers_too(project):
    ended = run_mst("run", "eval.yaml", cwd=project)
    assert ended.code in {0, 1, 3}, ended.err
    scores = {
        (found["grader"], found["caseId"]): found["score"]
        for path in (project / ".mst-results").rglob("scores/**/0.json")
        for found in [json.loads(path.read_text())]
    }
    cases = ["sound", "asks", "leaves"]
    assert all(scores[grader, case]["pass"] for grader in ("python", "command") for case in cases), scores
    assert scores["checks", "sound"]["pass"], scores
    assert scores["checks", "sound"]["judgments"][0]["reasoning"] == "mst\nhello\n"
    assert scores["checks", "asks"]["deferred"] == ["query"]
    assert scores["checks", "leaves"]["error"] == "ended with exit code 3 and without a result"
