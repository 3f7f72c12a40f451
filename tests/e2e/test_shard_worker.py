"""The shard worker's process: quick to start, and gone when its work is done, whatever its supervisor is at."""

import itertools
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
PYDANTIC_CPU_S = 0.1
"""Importing pydantic on a machine that is otherwise idle."""


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


def cpu_s(work):
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    work()
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime


def test_starting_and_grading_one_case_is_cheap(bundle, tmp_path):
    def grade_one():
        with grade_shard(bundle, tmp_path / str(next(numbers))) as process:
            process.communicate()

    def load_pydantic():
        subprocess.run([sys.executable, "-c", "import pydantic; pydantic.BaseModel"], check=True)

    numbers = itertools.count()
    limit = START_CPU_S + GRADING_CPU_S
    # on a busy machine the same work takes more CPU time: then as much more as a known piece of work
    busy = max(1.0, min(cpu_s(load_pydantic) for _ in range(5)) / PYDANTIC_CPU_S)
    assert min(cpu_s(grade_one) for _ in range(5)) <= limit * busy


def test_a_worker_that_grades_loads_nothing_that_collects():
    check = (
        "import sys, mst.shards.worker, mst.shards.grading; print(*[n for n in sys.modules if n.startswith('mst.')])"
    )
    done = subprocess.run([sys.executable, "-c", check], env=environment(), capture_output=True, text=True, check=True)
    rooms = {name.split(".")[1] for name in done.stdout.split()}
    assert not rooms & {"collect", "fleet", "runners", "report", "cli"}
