"""Grading on a fleet with a broker and workers of its own: what happens when parts of it go away in the middle."""

import os
import signal

import pytest

from mst import __version__
from mst.fleet.overview import lines, look
from mst.runs.folder import RunFolder
from mst.testing.commandline import ended, until
from mst.testing.equality import differences
from mst.testing.fleet import Bed, alive, fleet

pytestmark = pytest.mark.server


@pytest.fixture(scope="module")
def bed(tmp_path_factory):
    with fleet(tmp_path_factory.mktemp("fleet")) as running:
        yield Bed(running, tmp_path_factory.mktemp("quiz"))


@pytest.fixture(scope="module")
def here(bed):
    return bed.here()


def held(bed, count):
    """Wait until so many judges are held, one for each shard that runs; the answers that they are asked about."""
    return until(lambda: len(bed.quiz.lines("held")) >= count and bed.quiz.lines("held"), f"{count} judges are held")


def once(bed):
    return set(bed.quiz.calls().values()) == {1} and set(bed.quiz.calls()) == bed.quiz.keys


def test_two_workers_grade_like_one_process(bed, here):
    bed.ready(2)
    said = bed.grade()
    assert said.code in (0, 1), said.err
    assert differences(here.path, bed.newest().path) == []
    assert once(bed)
    assert "shards: 3 done" in said.err


def test_a_worker_killed_in_the_middle_costs_only_the_unit_in_flight(bed, here):
    bed.ready(2)
    bed.quiz.ask("hold-c3", "hold-c4")
    running = bed.start(shards=2)
    held(bed, 2)
    before = bed.durable()
    victim = next(iter(bed.fleet.workers.values()))
    family = victim.family()
    victim.kill()
    until(lambda: not any(alive(one) for one in family), "its children notice and end")
    bed.quiz.let_go("hold-c3", "hold-c4")
    said = ended(running)
    assert said.code in (0, 1), said.err
    assert differences(here.path, bed.newest().path) == []
    calls = bed.quiz.calls()
    assert {key: calls[key] for key in before if calls[key] > 1} == {}
    assert sum(calls.values()) == len(bed.quiz.keys) + 1
    assert "shard" in said.err


def test_attach_follows_the_same_dispatch_after_its_coordinator_was_killed(bed, here):
    bed.ready(2)
    bed.quiz.ask("hold-c3", "hold-c4")
    running = bed.start(shards=2)
    held(bed, 2)
    os.killpg(running.pid, signal.SIGKILL)
    ended(running)
    regrade = bed.newest()
    both = [bed.begin("attach", regrade.path) for _ in range(2)]
    # either may come first; while judges are held only the one that came second can end
    late = until(lambda: next((one for one in both if one.poll() is not None), None), "one of them is refused")
    [first] = [one for one in both if one is not late]
    second = ended(late)
    assert second.code == 2, second.err
    assert "another mst process" in second.err
    bed.quiz.let_go("hold-c3", "hold-c4")
    said = ended(first)
    assert said.code in (0, 1), said.err
    assert once(bed)
    assert differences(here.path, regrade.path) == []
    assert regrade.run().grading.runner.dispatches == ["d1"]


def test_attach_takes_what_was_finished_while_nobody_watched(bed, here):
    bed.ready(2)
    bed.quiz.ask("hold")
    running = bed.start(shards=2)
    held(bed, 2)
    os.killpg(running.pid, signal.SIGKILL)
    ended(running)
    bed.quiz.let_go("hold")
    regrade = bed.newest()
    until(lambda: len(bed.manifests(regrade)) == 2, "both shards are committed")
    for worker in bed.fleet.workers.values():
        worker.drain()
    said = bed.mst("attach", regrade.path)
    assert said.code in (0, 1), said.err
    assert once(bed)
    assert differences(here.path, regrade.path) == []


def test_a_regrade_whose_folder_was_removed_does_not_stand_in_the_way_of_the_next(bed, here):
    bed.ready(1)
    stem, _, number = bed.newest().run_id.partition(".g")
    removed, following = (bed.source.path.with_name(f"{stem}.g{int(number) + more}") for more in (1, 2))
    # what its first dispatch left in the store
    sent = bed.dispatch_folder(RunFolder(removed)) / "dispatch.json"
    sent.parent.mkdir(parents=True)
    sent.write_text("{}")
    said = bed.grade(shards=1)
    assert said.code in (0, 1), said.err
    assert f"shards of a {removed.name} were sent before: this one is {following.name}" in said.err
    assert not removed.exists()
    assert once(bed)
    assert differences(here.path, following) == []
    assert bed.newest().run().grading.runner.dispatches == ["d1"]


def granted(worker, regrade):
    """How many shards of a regrade a worker took."""
    return sum("shard_granted" in line and f'"{regrade.run_id}"' in line for line in worker.log.splitlines())


def test_what_demands_an_image_goes_to_its_workers_alone(bed, here):
    wanted = f"sha256:{'ab' * 32}"
    bed.ready(1)
    worker = bed.fleet.start(env={"MST_IMAGE_DIGEST": wanted})
    said = bed.grade("--runner-option", f"image={wanted}")
    assert said.code in (0, 1), said.err
    assert differences(here.path, bed.newest().path) == []
    machines = bed.newest().run().grading.runner.machines
    assert {machine.image for machine in machines} == {wanted}
    [idle] = [other for other in bed.fleet.workers.values() if other is not worker]
    assert granted(worker, bed.newest()) == 3
    assert granted(idle, bed.newest()) == 0
    status = look(bed.fleet.client, [])
    assert set(status.workers[f"mst.grade.{__version__}"]) == set(bed.fleet.workers)
    assert f"mst.grade.{__version__}.{'ab' * 6}: {worker.name}" in lines(status)
    bed.fleet.dismiss(worker)
