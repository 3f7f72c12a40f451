"""Stopping on a fleet: cancels, interrupts, drained workers, units that kill their worker. What is finished stays."""

import os
import signal

import pytest

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


def begin_held(bed, workers=2, shards=2):
    bed.ready(workers)
    bed.quiz.ask("hold-c3", "hold-c4")
    running = bed.start(shards=shards)
    until(lambda: len(bed.quiz.lines("held")) >= shards, "a judge of each shard is held")
    return running


def let_go(bed):
    bed.quiz.let_go("hold-c3", "hold-c4")


def finish_the_rest(bed, here):
    """Resume, and see that it asked about what had no answer and about nothing else."""
    regrade = bed.newest()
    asked = bed.quiz.calls()
    assert 0 < len(asked) < len(bed.quiz.keys)
    again = bed.mst("grade", regrade.path, "--resume", "--runner", "celery", "--runner-option", "shards=2")
    assert again.code in (0, 1), again.err
    assert set(bed.quiz.calls()) == bed.quiz.keys
    assert set(bed.quiz.calls().values()) == {1}
    assert differences(here.path, regrade.path) == []


def test_cancel_from_another_process_keeps_what_is_finished(bed, here):
    running = begin_held(bed)
    before = bed.fleet.cancels_heard()
    said = bed.mst("cancel", bed.newest().path)
    assert said.code == 0, said.err
    assert "asked to stop" in said.out
    until(lambda: bed.fleet.cancels_heard() == before + 2, "both workers have heard it")
    let_go(bed)
    said = ended(running)
    assert said.code == 130, said.err
    assert "--resume" in said.err
    assert bed.newest().run().phases.grade == "partial"
    finish_the_rest(bed, here)


def test_cancel_reaches_workers_whose_coordinator_is_gone(bed, here):
    running = begin_held(bed)
    os.killpg(running.pid, signal.SIGKILL)
    ended(running)
    regrade = bed.newest()
    told = bed.fleet.cancels_heard()
    said = bed.mst("cancel", regrade.path)
    assert said.code == 0, said.err
    until(lambda: bed.fleet.cancels_heard() == told + 2, "both workers have heard it")
    logs = lambda: "".join(worker.log for worker in bed.fleet.workers.values())  # noqa: E731 - read again each time
    before = logs().count('"how": "cancelled"')
    let_go(bed)
    until(lambda: logs().count('"how": "cancelled"') == before + 2, "both workers stop at their unit's end")
    assert bed.mst("cancel", bed.source.path).code == 2, "nothing is left to cancel"
    finish_the_rest(bed, here)


@pytest.mark.parametrize("number", [signal.SIGINT, pytest.param(signal.SIGTERM, marks=pytest.mark.slow)])
def test_an_interrupt_waits_for_units_in_flight(bed, here, number):
    running = begin_held(bed)
    before = bed.fleet.cancels_heard()
    running.send_signal(number)
    until(lambda: "stopping after the units in flight" in running.stderr.readline(), "it is heard")
    until(lambda: bed.fleet.cancels_heard() == before + 2, "both workers have heard it")
    let_go(bed)
    said = ended(running)
    assert said.code == 130, said.err
    finish_the_rest(bed, here)


def test_a_second_interrupt_leaves_at_once_and_attach_finishes(bed, here):
    running = begin_held(bed)
    running.send_signal(signal.SIGINT)
    until(lambda: "stopping" in running.stderr.readline(), "it is heard")
    running.send_signal(signal.SIGINT)
    said = ended(running)
    assert said.code == 130
    assert "Traceback" not in said.err
    let_go(bed)
    regrade = bed.newest()
    said = bed.mst("attach", regrade.path)
    while said.code == 3:
        said = bed.mst("grade", regrade.path, "--resume", "--runner", "celery")
    assert said.code in (0, 1), said.err
    assert set(bed.quiz.calls()) == bed.quiz.keys
    assert set(bed.quiz.calls().values()) == {1}
    assert differences(here.path, regrade.path) == []


def test_a_drained_worker_finishes_its_unit_and_another_takes_the_rest(bed, here):
    running = begin_held(bed, workers=1, shards=1)
    [worker] = bed.fleet.workers.values()
    worker.process.send_signal(signal.SIGTERM)
    # its log has the attempts of earlier tests, too, which were cancelled
    until(lambda: '"why": "drain"' in worker.log, "its attempt is told to end")
    family = worker.family()
    let_go(bed)
    assert worker.process.wait(90) == 0
    assert not any(alive(one) for one in family)
    assert '"how": "given_back"' in worker.log
    assert 0 < len(bed.quiz.calls()) < len(bed.quiz.keys)
    bed.fleet.start()
    said = ended(running)
    assert said.code in (0, 1), said.err
    assert "it was told to end (drained)" in said.err
    assert set(bed.quiz.calls().values()) == {1}
    assert differences(here.path, bed.newest().path) == []


@pytest.mark.slow
def test_a_second_term_ends_a_worker_soon(bed, here):
    bed.ready(0)
    worker = bed.fleet.start("--hurry-after", "0.2")
    running = begin_held(bed, workers=1, shards=1)
    family = worker.family()
    worker.process.send_signal(signal.SIGTERM)
    until(lambda: "shutdown" in worker.log.lower(), "the worker is told to end")
    worker.process.send_signal(signal.SIGTERM)
    assert worker.process.wait(90) == 0
    assert '"how": "given_back"' in worker.log
    until(lambda: not any(alive(one) for one in family), "nothing of it goes on")
    let_go(bed)
    bed.fleet.start()
    said = ended(running)
    assert said.code in (0, 1), said.err
    calls = bed.quiz.calls()
    assert {key for key, times in calls.items() if times > 1} <= set(bed.quiz.lines("held"))
    assert differences(here.path, bed.newest().path) == []


def test_a_unit_that_kills_its_worker_is_given_up_and_the_rest_goes_on(bed, here):
    bed.ready(2)
    bed.quiz.ask("crash-c3")
    said = bed.grade(shards=2)
    assert said.code == 3, said.err
    regrade = bed.newest()
    errors = {
        (case.variant, case.id): trial.grading_error
        for case in regrade.case_results()
        for trial in case.trial_results
        if trial.grading_error
    }
    assert set(errors) == {("a", "c3"), ("b", "c3")}
    assert all("crashed the worker twice" in error for error in errors.values())
    calls = bed.quiz.calls()
    assert {key: times for key, times in calls.items() if times > 1} == {"A c3": 2, "B c3": 2}
    bed.quiz.let_go("crash-c3")
    again = bed.mst("grade", regrade.path, "--resume", "--runner", "celery")
    assert again.code in (0, 1), again.err
    assert bed.quiz.calls() - calls == {"A c3": 1, "B c3": 1}
    assert differences(here.path, regrade.path) == []


@pytest.mark.slow
def test_a_dispatch_past_its_deadline_ends_and_says_so(bed):
    bed.ready(0)
    said = bed.grade("--runner-option", "wait=true", "--runner-option", "deadline_h=0.0003")
    assert said.code == 3, said.err
    errors = {trial.grading_error for case in bed.newest().case_results() for trial in case.trial_results}
    assert all("the deadline" in error for error in errors)
    assert "is partial; finish it with: mst grade" in said.error_lines[-1]
    assert bed.quiz.lines("calls") == []
