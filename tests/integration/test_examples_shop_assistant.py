"""The example of the client `llm` is run as its README says: with its own scripted model, and at another address."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from contextlib import contextmanager
from pathlib import Path

import pytest

from mst.testing.commandline import run_mst
from mst.testing.modelscript import Call, Reply, ToolUse
from mst.testing.modelserver import model_server

EXAMPLE = Path(__file__).parents[2] / "examples" / "shop-assistant"
ITS_ADDRESS = "http://127.0.0.1:8765/v1"

pytestmark = [pytest.mark.timeout(300)]


@pytest.fixture
def example(tmp_path):
    shutil.copytree(EXAMPLE, tmp_path / "shop", ignore=shutil.ignore_patterns(".mst-results"))
    return tmp_path / "shop"


@contextmanager
def its_own_model(example):
    """The address of `scripted_model.py`, on a free port."""
    argv = [sys.executable, "scripted_model.py", "--port", "0"]
    with subprocess.Popen(argv, cwd=example, stdout=subprocess.PIPE, text=True) as process:
        try:
            yield re.search(r"http://\S+", process.stdout.readline())[0]
        finally:
            process.kill()


def verdict_of(example, address, *options):
    config = (example / "eval.yaml").read_text()
    assert ITS_ADDRESS in config
    (example / "eval.yaml").write_text(config.replace(ITS_ADDRESS, address))
    ran = run_mst("run", "eval.yaml", "--no-probe", *options, cwd=example)
    assert ran.code == 0, ran
    (found,) = example.glob(".mst-results/shop-assistant/runs/*/summary.json")
    summary = json.loads(found.read_text())
    passed = {one["name"]: one["result"]["passed"] for one in summary["variants"]}
    return passed, [one["verdict"] for one in summary["verdicts"]]


def test_it_runs_with_its_own_model_and_says_what_its_readme_says(example):
    with its_own_model(example) as address:
        assert verdict_of(example, address) == ({"plain": 0, "told": 8}, ["better"])
    table = (EXAMPLE / "README.md").read_text()
    assert "| plain (baseline) | 0 of 8 |" in table
    assert "| told | 8 of 8 | 8 cases / 0 cases | 0.0039 | better |" in table


def test_it_runs_at_any_address_that_speaks_the_dialect(example):
    def model(call: Call) -> Reply:
        if "bread" not in call.prompt:
            return Reply(text="ready")
        return Reply(text="It is 14") if call.turn else Reply(tools=[ToolUse("price", {"thing": "bread"})])

    with model_server(model) as server:
        passed, _ = verdict_of(example, server.openai_url, "--case", "bread", "--variant", "told")
    assert passed == {"told": 1}
