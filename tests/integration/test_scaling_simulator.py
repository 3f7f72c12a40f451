"""The simulator of fleets: laws that hold for any policy, and its word against a real fleet of eight local workers."""

import json
import random
import sys
import time
from datetime import datetime
from pathlib import Path

import pytest
import yaml

from mst.fleet.scale import Rule
from mst.testing.commandline import run_mst, start_mst
from mst.testing.fleet import fleet

SIMULATOR = Path(__file__).parents[2] / "benchmarks" / "fleet_sim"
WORKERS = 8
JUDGE = """
import json, sys, time
if sys.argv[1:] == ["preflight"]:
    sys.exit(0)
question = json.load(sys.stdin)
time.sleep(float(question["trial"]["response"]))
print(json.dumps({"score": 1.0, "reasoning": "slept"}))
"""


@pytest.fixture(scope="module")
def sim():
    sys.path.insert(0, str(SIMULATOR))
    try:
        import model
        import traces
    finally:
        sys.path.remove(str(SIMULATOR))
    model.TRACES = traces.TRACES
    return model


def simulate(sim, shards, *, seed=1, world=None, **policy):
    given = {"name": "p", "rule": Rule(target=1, most=20), **policy}
    return sim.Simulation(shards, world or sim.World(), sim.Policy(**given), seed=seed).run()


@pytest.mark.parametrize("shrink", ["self", "metric", "protected"])
@pytest.mark.parametrize("trace", ["burst", "office", "trickle"])
def test_every_shard_ends_and_every_machine_goes(sim, trace, shrink):
    shards = sim.TRACES[trace](60)
    found = simulate(sim, shards, shrink=shrink)
    work_s = sum(sum(shard.units_s) for shard in shards)
    assert found.busy_s >= work_s
    assert found.machine_s >= found.busy_s
    assert 0 <= found.waste < 1
    assert found.makespan_s >= max(sum(shard.units_s) for shard in shards) - shards[-1].at_s


def test_the_same_seed_gives_the_same_figures(sim):
    first, second = (simulate(sim, sim.TRACES["office"](80), seed=3) for _ in range(2))
    assert first == second
    assert first != simulate(sim, sim.TRACES["office"](80), seed=4)


def test_without_losses_nothing_is_repeated_and_with_them_something_is(sim):
    shards = sim.TRACES["burst"](100)
    calm = simulate(sim, shards, world=sim.World(spot_losses_h=0))
    rough = simulate(sim, shards, world=sim.World(spot_losses_h=1.0))
    assert calm.repeated_units == 0
    assert calm.lost_machines == 0
    assert rough.repeated_units > 0
    assert rough.makespan_s > calm.makespan_s


def test_queue_lengths_take_machines_from_their_work(sim):
    shards = sim.TRACES["office"](200)
    honest = simulate(sim, shards, shrink="self")
    naive = simulate(sim, shards, shrink="metric", counts_running=False)
    assert honest.taken_from_work == 0
    assert naive.taken_from_work > 10
    assert naive.repeated_units > honest.repeated_units


@pytest.mark.slow
def test_ten_thousand_workers_take_under_a_minute(sim):
    began = time.monotonic()
    found = simulate(sim, sim.TRACES["burst"](40_000), rule=Rule(target=1, most=10_000))
    assert time.monotonic() - began < 60
    assert found.peak == 10_000


def write_eval(home, sleeps):
    home.mkdir()
    (home / "judge.py").write_text(JUDGE)
    cases = [{"id": f"c{number:02}", "input": f"{seconds:.3f}"} for number, seconds in enumerate(sleeps)]
    (home / "cases.yaml").write_text(yaml.safe_dump(cases))
    argv = ["{{python}}", "-I", "-S", "judge.py"]
    config = {
        "name": "sleeps",
        "concurrency": 1,
        "client": "command",
        "client_options": {"argv": ["cat"], "input": "stdin"},
        "datasets": ["cases.yaml"],
        "judges": [{"name": "sleeper", "command": {"argv": argv, "files": ["judge.py"]}, "threshold": 0.5}],
    }
    (home / "eval.yaml").write_text(yaml.safe_dump(config, sort_keys=False))
    said = run_mst("run", "eval.yaml", "--no-grade", cwd=home)
    assert said.code == 0, said.err
    [run] = (home / ".mst-results" / "sleeps" / "runs").iterdir()
    return run


def attempts_of(workers):
    """(granted, ended) of every attempt, as the workers' own logs have them."""
    found = {}
    for worker in workers:
        for line in worker.log.splitlines():
            if '"event": "shard_granted"' in line or '"event": "attempt_ended"' in line:
                event = json.loads(line[line.index("{") :])
                at = datetime.fromisoformat(event["timestamp"]).timestamp()
                found.setdefault((event["run_id"], event["shard"]), []).append(at)
    return found


@pytest.mark.slow
@pytest.mark.long
@pytest.mark.server
@pytest.mark.timeout(300)
def test_it_foretells_a_real_fleet_of_eight_workers_within_ten_percent(sim, tmp_path):
    chance = random.Random(11)
    calibration = [9.0] * WORKERS
    sleeps = [chance.uniform(6, 14) for _ in range(3 * WORKERS)]
    with fleet(tmp_path) as running:
        for _ in range(WORKERS):
            running.start()

        def grade(name, times):
            run = write_eval(tmp_path / name, times)
            options = ["--runner", "celery", "--runner-option", f"shards={len(times)}"]
            process = start_mst("grade", run, *options, cwd=tmp_path, env=running.coordinator)
            _, said = process.communicate(timeout=150)
            assert process.returncode == 0, said
            (record,) = (tmp_path / "store").glob(f"sleeps/dispatches/{run.name}*/d1/dispatch.json")
            sent = {one["shard"]: one["caseIds"] for one in json.loads(record.read_text())["shards"]}
            spans = {key[1]: at for key, at in attempts_of(running.workers.values()).items() if run.name in key[0]}
            assert set(spans) == set(sent)
            work = {shard: [times[int(case[1:])] for case in cases] for shard, cases in sent.items()}
            return spans, work

        first, work = grade("calibration", calibration)
        overhead_s = sum(end - began - sum(work[shard]) for shard, (began, end) in first.items()) / len(first)
        spans, work = grade("real", sleeps)
    real_s = max(end for _, end in spans.values()) - min(began for began, _ in spans.values())
    shards = [sim.Shard(0.0, tuple(work[number])) for number in sorted(work)]
    world = sim.World(overhead_s=overhead_s, spot_losses_h=0, boot_s=0, first_workers=WORKERS)
    foretold = simulate(sim, shards, world=world, rule=Rule(least=WORKERS, most=WORKERS)).makespan_s
    sys.stderr.write(
        f"fleet_sim: foretold {foretold:.1f} s, real {real_s:.1f} s, overhead {overhead_s:.2f} s a shard\n"
    )
    assert foretold == pytest.approx(real_s, rel=0.10)
