"""Rate limits and budgets of an eval, kept over shards in other processes; counted where the calls arrive."""

import time
from dataclasses import replace

import pytest
import yaml

from mst.runs.folder import RunFolder
from mst.runs.locate import regrades_of
from mst.testing.commandline import ended, run_mst, start_mst
from mst.testing.fleet import fleet
from mst.testing.modelscript import too_many, verdict
from mst.testing.modelserver import model_server

CASES = 12


class Counting:
    """Answers after a moment, and once with a 429 when asked to; knows when calls came."""

    def __init__(self, hold_s=0.1, *, busy=False):
        self.hold_s, self.times, self.busy, self.busy_at = hold_s, [], busy, None

    def __call__(self, _call):
        self.times.append(time.monotonic())
        if self.busy and len(self.times) == 3:
            self.busy_at = time.monotonic()
            return too_many(2.0)
        return replace(verdict(), stall_s=self.hold_s)


def make_run(home, url, **config):
    (home / "cases.yaml").write_text(yaml.safe_dump([{"id": f"c{n}", "input": f"c{n}"} for n in range(CASES)]))
    written = {
        "name": "limited",
        "datasets": [{"file": "cases.yaml"}],
        "client": "echo",
        "concurrency": 6,
        "judges": [{"name": "r", "rubric": {"model": "openai:m", "base_url": f"{url}/v1"}}],
        "pricing": {"openai:m": {"input": 1000, "output": 1000}},
        **config,
    }
    path = home / "eval.yaml"
    path.write_text(yaml.safe_dump(written))
    said = run_mst("run", path, "--no-grade", cwd=home)
    assert said.code == 0, said.err
    assert "nothing acts on it yet" not in said.err
    [run] = (home / ".mst-results" / "limited" / "runs").iterdir()
    return RunFolder(run)


def grade(run, home, *options):
    return run_mst("grade", run.path, *options, cwd=home)


def test_two_calls_at_once_over_three_processes(tmp_path):
    counting = Counting(0.4)
    with model_server(counting) as server:
        run = make_run(tmp_path, server.url, rate_limits={"providers": {"openai": {"concurrent": 2}}})
        said = grade(run, tmp_path, "--runner", "process", "--runner-option", "shards=3", "--runner-option",
                     "max_parallel=3")  # fmt: skip
    assert said.code == 0, said.err
    assert server.most_at_once == 2
    assert len(counting.times) == CASES


@pytest.mark.parametrize("runner", ["local", "process"])
def test_a_budget_stops_new_units_and_a_higher_one_lets_the_run_be_resumed(tmp_path, runner):
    counting = Counting(0.02)
    options = [] if runner == "local" else ["--runner-option", "shards=2"]
    with model_server(counting) as server:
        run = make_run(tmp_path, server.url, concurrency=1, budget={"cost_usd": 0.5})
        said = grade(run, tmp_path, "--runner", runner, *options)
        assert said.code == 3, said.err
        spent = len(counting.times)
        assert 0 < spent < CASES
        regrade = regrades_of(run)[-1]
        assert regrade.run().phases.grade == "partial"
        config = yaml.safe_load((tmp_path / "eval.yaml").read_text())
        (tmp_path / "more.yaml").write_text(yaml.safe_dump({**config, "budget": {"cost_usd": 500}}))
        again = grade(regrade, tmp_path, "--resume", "--config", tmp_path / "more.yaml", "--runner", runner, *options)
    assert again.code == 0, again.err
    assert len(counting.times) == CASES
    assert "the budget is used up" in said.err or "the budget is used up" in said.out


@pytest.mark.server
def test_on_a_fleet_limits_pauses_and_budget_hold_over_all_workers(tmp_path):
    counting = Counting(busy=True)
    with model_server(counting) as server, fleet(tmp_path / "fleet") as one:
        home = tmp_path / "home"
        home.mkdir()
        run = make_run(home, server.url, rate_limits={"providers": {"openai": {"concurrent": 2}}})
        one.start()
        one.start()
        options = ["--runner", "celery", "--runner-option", "shards=3", "--runner-option", "lease_ttl_s=2"]
        said = ended(start_mst("grade", run.path, *options, cwd=home, env=one.coordinator))
        assert said.code == 0, said.err
        assert server.most_at_once == 2
        assert len(counting.times) == CASES + 1
        # what had its turn already when the answer came still starts
        after = [at - counting.busy_at for at in counting.times if at > counting.busy_at]
        assert len([delay for delay in after if delay < 1.9]) <= 2, after
        config = yaml.safe_load((home / "eval.yaml").read_text())
        (home / "eval.yaml").write_text(yaml.safe_dump({**config, "concurrency": 1, "budget": {"cost_usd": 0.5}}))
        counting.times.clear()
        counting.busy = False
        poor = ended(start_mst("grade", run.path, "--config", home / "eval.yaml", *options, cwd=home,
                               env=one.coordinator))  # fmt: skip
        assert poor.code == 3, poor.err
        assert 0 < len(counting.times) < CASES
        assert "the budget is used up" in poor.err
