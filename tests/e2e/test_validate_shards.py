"""`mst validate --oracle --noop` in shards says what it says in one process, and loses no case silently."""

from __future__ import annotations

import json

import pytest

from mst.runners.process import ProcessRunner
from mst.testing.commandline import call_mst

STEW = {"path": "in.txt", "text": "stew"}
CASES = [
    {"id": "sound", "input": "q", "expected": {"answer": "yes"}, "assertions": [{"equals": {}}]},
    {"id": "wrong", "input": "q", "expected": {"answer": "no"}, "assertions": [{"contains_text": "yes"}]},
    {"id": "blind", "input": "q", "expected": {"answer": "yes"}, "assertions": [{"not_contains_text": "no"}]},
    {"id": "unanswered", "input": "q", "assertions": [{"contains_text": "yes"}]},
    {"id": "tools", "input": "q", "expected": {"answer": "yes"}, "assertions": [{"tools_triggered": [{"name": "t"}]}]},
    {"id": "judged", "input": "q", "expected": {"answer": "yes"}, "judges": [{"command": {"argv": ["true"]}}]},
    {"id": "bare", "input": "q", "expected": {"answer": "yes"}},
    {"id": "files", "input": "q", "files": "menu", "solution": "better", "assertions": [{"file_contains": STEW}]},
]
PROCESS = ["--runner", "process", "--runner-option", "shards=2"]


@pytest.fixture
def config(tmp_path):
    for name, text in (("menu", "soup\n"), ("better", "stew\n")):
        (tmp_path / name).mkdir()
        (tmp_path / name / "in.txt").write_text(text)
    (tmp_path / "cases.yaml").write_text(json.dumps(CASES))
    settled = {"name": "e", "datasets": [{"file": "cases.yaml"}], "client": "echo", "trials": 3}
    (tmp_path / "eval.yaml").write_text(json.dumps(settled))
    return tmp_path / "eval.yaml"


def checks(said):
    return json.loads(said.out)["checks"]


def test_shards_find_what_one_process_finds(config, capsys):
    here = call_mst(capsys, "validate", config, "--oracle", "--noop", "--json")
    shards = call_mst(capsys, "validate", config, "--oracle", "--noop", "--json", *PROCESS)
    assert checks(shards) == checks(here)
    assert (shards.code, here.code) == (1, 1)
    oracle = {check["caseId"]: check["verdict"] for check in checks(here)["oracle"]}
    assert oracle == {
        "sound": "1.0",
        "wrong": "FAILED",
        "blind": "1.0",
        "unanswered": "MISSING",
        "tools": "deferred",
        "judged": "deferred",
        "bare": "FAILED",
        "files": "1.0",
    }


def test_a_shard_that_does_not_come_back_is_a_fault_of_each_of_its_cases(config, capsys, monkeypatch):
    monkeypatch.setattr(ProcessRunner, "run", lambda self, shards, events, cancel: [])
    said = call_mst(capsys, "validate", config, "--oracle", "--json", *PROCESS)
    assert said.code == 1
    found = checks(said)["oracle"]
    assert [check["verdict"] for check in found] == ["FAILED"] * len(CASES)
    assert all("its shard did not come back" in check["detail"] for check in found)


def test_options_of_the_runner_are_checked_first(config, capsys):
    said = call_mst(capsys, "validate", config, "--oracle", "--runner", "local", "--runner-option", "shards=2")
    assert said.code == 2
    assert "--runner-option shards" in said.err
