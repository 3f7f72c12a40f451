"""A rolling upgrade with two versions at once: nobody takes the other's work, and nothing stops."""

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import mst
from mst import __version__
from mst.fleet.presence import Presence
from mst.fleet.queues import queue_name
from mst.testing.commandline import ended, start_mst, until
from mst.testing.fleet import Bed, fleet

pytestmark = pytest.mark.server

NEXT = "99.0.0"


@pytest.fixture(scope="module")
def next_version(tmp_path_factory):
    """A copy of the program that calls itself another version; what goes on PYTHONPATH."""
    root = tmp_path_factory.mktemp("next")
    package = Path(mst.__file__).parent
    shutil.copytree(package, root / "mst", ignore=shutil.ignore_patterns("__pycache__"))
    init = root / "mst" / "__init__.py"
    text = init.read_text()
    assert text.count(f'"{__version__}"') == 1
    init.write_text(text.replace(f'"{__version__}"', f'"{NEXT}"'))
    said = subprocess.run(
        [sys.executable, "-m", "mst", "--version"],
        env={"PYTHONPATH": str(root)},
        cwd=root,
        capture_output=True,
        text=True,
        check=True,
    )
    assert NEXT in said.stdout
    return {"PYTHONPATH": str(root)}


@pytest.fixture(scope="module")
def bed(tmp_path_factory):
    with fleet(tmp_path_factory.mktemp("fleet")) as running:
        yield Bed(running, tmp_path_factory.mktemp("quiz"))


def start_next(bed, next_version):
    worker = bed.fleet.start(env=next_version, wait=False)
    queue = queue_name("grade", mst_version=NEXT)
    until(lambda: worker.name in Presence(bed.fleet.client).workers(queue) and " ready." in worker.log, "it serves")
    return worker


def grade_next(bed, next_version, *options):
    env = {**bed.fleet.coordinator, **next_version}
    return ended(start_mst(*bed.arguments(*options), cwd=bed.home, env=env, new_session=True))


def test_a_new_coordinator_is_refused_while_only_old_workers_serve(bed, next_version):
    bed.ready(1)
    said = grade_next(bed, next_version)
    assert said.code == 2, said.err
    assert f"mst.grade.{NEXT}" in said.err
    assert bed.quiz.calls() == {}


def test_both_versions_work_side_by_side_and_take_only_their_own(bed, next_version):
    bed.ready(1)
    (old,) = bed.fleet.workers.values()
    new = start_next(bed, next_version)
    bed.quiz.ask("hold")
    first = bed.start(shards=2)
    until(lambda: bed.quiz.lines("held"), "the old run is under way on the old worker")
    bed.quiz.let_go("hold")
    second = grade_next(bed, next_version)
    assert second.code in (0, 1), second.err
    of_new = bed.newest()
    said = ended(first)
    assert said.code in (0, 1), said.err
    assert "refused" not in old.log + new.log
    assert old.log.count('"how": "committed"') == 2
    assert new.log.count('"how": "committed"') >= 2
    # a janitor of either version may send a shard again; only the right one takes it
    assert of_new.run_id in granted(new)
    assert granted(new).isdisjoint(granted(old))


def granted(worker):
    lines = [line for line in worker.log.splitlines() if '"event": "shard_granted"' in line]
    return {json.loads(line[line.index("{") :])["run_id"] for line in lines}


def test_the_old_worker_drains_while_the_new_one_goes_on(bed, next_version):
    bed.ready(1)
    (old,) = bed.fleet.workers.values()
    start_next(bed, next_version)
    assert old.drain() == 0
    said = grade_next(bed, next_version)
    assert said.code in (0, 1), said.err
    said = bed.grade()
    assert said.code == 2
    assert f"mst.grade.{__version__}" in said.err
