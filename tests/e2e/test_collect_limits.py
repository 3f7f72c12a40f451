"""Budget and rates of an eval while trials are made in this process: the same rules as in shards."""

import sys

import pytest
import yaml

from mst.runs.folder import RunFolder
from mst.testing.commandline import run_mst

CASES = 12
PROGRAM = """
import os, sys, time
log = os.open(sys.argv[1], os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
os.write(log, b"+")
time.sleep(float(sys.argv[2]))
os.write(log, b"-")
print('{"finalText": "hello", "usage": {"inputTokens": 90, "outputTokens": 10}}')
"""


class Scene:
    """An eval whose program uses a hundred tokens, and notes when it begins and ends."""

    def __init__(self, home):
        self.home = home
        self.log = home / "log"
        (home / "program.py").write_text(PROGRAM)
        (home / "cases.yaml").write_text(yaml.safe_dump([{"id": f"c{n}", "input": f"c{n}"} for n in range(CASES)]))

    def write(self, *, takes_s=0.0, **config):
        argv = [sys.executable, str(self.home / "program.py"), str(self.log), str(takes_s)]
        written = {
            "name": "limited",
            "datasets": [{"file": "cases.yaml"}],
            "client": "command",
            "model": "fake:m",
            "client_options": {"argv": argv, "transcript": "jsonl"},
            "assertions": [{"contains_text": "hello"}],
            **config,
        }
        path = self.home / "eval.yaml"
        path.write_text(yaml.safe_dump(written))
        return path

    def made(self):
        return self.log.read_text().count("+") if self.log.exists() else 0

    def run_folder(self):
        [run] = (self.home / ".mst-results" / "limited" / "runs").iterdir()
        return RunFolder(run)


@pytest.fixture
def scene(tmp_path):
    return Scene(tmp_path)


@pytest.mark.parametrize("options", [(), ("--runner", "process")], ids=["local", "process"])
def test_a_budget_leaves_the_rest_missing_and_a_resume_counts_what_was_spent(scene, options):
    config = scene.write(concurrency=1, budget={"tokens": 500})
    said = run_mst("run", config, *options, cwd=scene.home)
    assert said.code == 3, said.err
    assert "the budget is used up" in said.err
    assert scene.made() == 5
    folder = scene.run_folder()
    trials = [trial for case in folder.case_results() for trial in case.trial_results]
    assert [trial.passed for trial in trials if trial.failure_kind is None] == [True] * 5
    missing = [trial for trial in trials if trial.failure_kind == "missing"]
    assert len(missing) == CASES - 5
    assert all("the budget is used up: 500 of 500 tokens" in trial.error for trial in missing)
    if not options:
        again = run_mst("run", config, "--resume", folder.path, cwd=scene.home)
        assert again.code == 3, again.err
        assert scene.made() == 5
        more = run_mst(
            "run", scene.write(concurrency=1, budget={"tokens": 2000}), "--resume", folder.path, cwd=scene.home
        )
        assert more.code == 0, more.err
        assert scene.made() == CASES
        assert folder.run().stopped is None


def test_rates_hold_while_trials_are_made_here(scene):
    config = scene.write(takes_s=0.05, concurrency=6, rate_limits={"providers": {"fake": {"concurrent": 2}}})
    said = run_mst("run", config, cwd=scene.home)
    assert said.code == 0, said.err
    running = most = 0
    for step in scene.log.read_text():
        running += 1 if step == "+" else -1
        most = max(most, running)
    assert (most, running, scene.made()) == (2, 0, CASES)
