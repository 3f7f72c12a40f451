"""The shard worker's process: quick to start, and gone when its work is done, whatever its supervisor is at."""

import os
import resource
import subprocess
import sys

import pytest

from mst.config.resolve import load_eval
from mst.shards.bundle import BundleInput, write_grade_bundle
from mst.testing.commandline import environment
from mst.testing.stored_run import collect_run, write_echo_eval

START_CPU_S = 0.35
GRADING_CPU_S = 0.15


@pytest.fixture(scope="module")
def bundle(tmp_path_factory):
    """A grade bundle of one case, and its digest."""
    home = tmp_path_factory.mktemp("bundle")
    config = write_echo_eval(home / "eval", cases=1)
    run = collect_run(config, home / "results")
    with load_eval(config) as resolved:
        given = BundleInput(
            plan=resolved.plan,
            datasets=resolved.datasets,
            run_id=run.run_id,
            files=resolved.files,
            seed=1,
            count=1,
            variants=[variant.name for variant in resolved.plan.variants],
        )
        digest = write_grade_bundle(home / "bundle", given, shard=0, cases=resolved.cases, run=run.run(), stored=run)
    return home / "bundle", digest


def grade_shard(bundle, results):
    """Start it with an stdin that stays open."""
    folder, digest = bundle
    argv = ["grade-shard", "--bundle", str(folder), "--results", str(results), "--digest", digest]
    return subprocess.Popen(
        [sys.executable, "-m", "mst", *argv],
        env=environment(),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )


def test_it_ends_by_itself_after_done_although_nobody_closes_its_stdin(bundle, tmp_path):
    with grade_shard(bundle, tmp_path / "results") as process:
        lines = process.stdout.read().splitlines()
        code = process.wait(30)
        errors = process.stderr.read()
    assert b'"type":"done"' in lines[-1]
    assert (code, errors) == (0, b"")
    assert len(list((tmp_path / "results" / "units").iterdir())) == 2


def test_starting_and_grading_one_case_is_cheap(bundle, tmp_path):
    def cpu_s(number):
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        with grade_shard(bundle, tmp_path / str(number)) as process:
            process.communicate()
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        return after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime

    limit = (START_CPU_S + GRADING_CPU_S) * (2 if os.environ.get("PYTEST_XDIST_WORKER") else 1)
    assert min(cpu_s(number) for number in range(3)) <= limit


def test_a_worker_that_grades_loads_nothing_that_collects():
    check = (
        "import sys, mst.shards.worker, mst.shards.grading; print(*[n for n in sys.modules if n.startswith('mst.')])"
    )
    done = subprocess.run([sys.executable, "-c", check], env=environment(), capture_output=True, text=True, check=True)
    rooms = {name.split(".")[1] for name in done.stdout.split()}
    assert not rooms & {"collect", "fleet", "runners", "report", "cli"}
