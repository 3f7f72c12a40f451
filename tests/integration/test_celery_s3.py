"""The main job on a real S3 server: coordinator and workers share it and the broker, and nothing else."""

import shutil

import pytest

from mst.runs.folder import RunFolder
from mst.runs.locate import regrades_of
from mst.store.layout import RunKeys
from mst.store.uri import open_store
from mst.testing.commandline import ended, until
from mst.testing.equality import differences
from mst.testing.fleet import alive, s3_bed

pytestmark = pytest.mark.server


@pytest.fixture(scope="module")
def bed(tmp_path_factory):
    with s3_bed(tmp_path_factory.mktemp) as bed:
        yield bed


def test_a_run_is_graded_through_broker_and_store_alone_with_a_worker_killed(bed):
    here = bed.here()
    bed.ready(2)
    bed.quiz.ask("hold-c3", "hold-c4")
    running = bed.start(shards=2)
    until(lambda: len(bed.quiz.lines("held")) == 2, "two judges are held")
    bed.durable()
    victim = next(iter(bed.fleet.workers.values()))
    family = victim.family()
    victim.kill()
    until(lambda: not any(alive(one) for one in family), "its children notice and end")
    bed.quiz.let_go("hold-c3", "hold-c4")
    said = ended(running)
    assert said.code in (0, 1), said.err
    regrade = bed.newest()
    assert differences(here.path, regrade.path) == []
    calls = bed.quiz.calls()
    assert sum(calls.values()) == len(bed.quiz.keys) + 1
    store = open_store(bed.fleet.store_uri, environ=bed.server.environ())
    keys = RunKeys("quiz", regrade.run_id).dispatch("d1")
    assert store.head(keys.closed) is not None
    assert all(store.head(keys.shard(index).manifest) is not None for index in (0, 1))
    # nothing of the run lies where workers live
    left = [path for worker in bed.fleet.workers.values() for path in worker.home.rglob("*") if path.name != "log"]
    assert left == []


def test_the_credentials_of_the_store_do_not_reach_what_shards_run(bed):
    bed.ready(1)
    bed.quiz.ask("hold-c3")
    running = bed.start(shards=1)
    until(lambda: bed.quiz.lines("held"), "a judge is held")
    [worker] = bed.fleet.workers.values()
    below = worker.family()[1:]
    assert below
    told = [name for one in below for name in one.environ() if name.startswith(("AWS_", "MST_BROKER", "MST_FLEET_KEY"))]
    bed.quiz.let_go("hold-c3")
    assert ended(running).code in (0, 1)
    assert told == []


@pytest.mark.slow
def test_a_coordinator_elsewhere_goes_on_with_a_copy_of_the_run_folder(bed, tmp_path):
    """Coordinators too share nothing but broker, store and the run folder that they are given."""
    import os
    import signal

    here = bed.here()
    bed.ready(2)
    bed.quiz.ask("hold")
    running = bed.start(shards=2)
    until(lambda: len(bed.quiz.lines("held")) == 2, "two judges are held")
    os.killpg(running.pid, signal.SIGKILL)
    ended(running)
    moved = tmp_path / "elsewhere" / ".mst-results"
    shutil.copytree(bed.home / ".mst-results", moved)
    bed.quiz.let_go("hold")
    name = bed.newest().run_id
    said = bed.mst("attach", name, "--output-dir", moved)
    assert said.code in (0, 1), said.err
    [regrade] = [
        one for one in regrades_of(RunFolder(moved / "quiz" / "runs" / bed.source.run_id)) if one.run_id == name
    ]
    assert differences(here.path, regrade.path) == []
    assert set(bed.quiz.calls().values()) == {1}


def test_a_store_that_only_reads_is_refused_before_anything_is_sent(bed):
    bed.ready(1)
    regrades = len(list(bed.source.path.parent.iterdir()))
    said = bed.grade(env=bed.server.reader_environ())
    assert said.code == 4
    [line] = said.error_lines
    assert "s3://mst-test/team" in line
    assert len(list(bed.source.path.parent.iterdir())) == regrades
    assert bed.quiz.lines("calls") == []
