"""`mst grade R --resume --distrust`: what a machine or an attempt gave is given again, and nothing else is."""

import json
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


@pytest.fixture
def graded(bed, here):
    """A regrade of which each of two workers gave a part: no shard begins its last unit before both have one."""
    bed.ready(2)
    bed.quiz.ask("hold-c1", "hold-c2", "hold-c3", "hold-c4")
    running = bed.start(shards=2)
    until(lambda: len(bed.quiz.lines("held")) >= 2, "both workers have a shard")
    bed.quiz.let_go("hold-c1", "hold-c2", "hold-c3", "hold-c4")
    said = ended(running)
    assert said.code in (0, 1), said.err
    regrade = bed.newest()
    assert differences(here.path, regrade.path) == []
    assert len(givers(regrade)) == 2
    bed.quiz.forget()
    return regrade


def given(regrade):
    lines = [json.loads(line) for line in (regrade.path / "authors.jsonl").read_text().splitlines()]
    return [line for line in lines if line["type"] == "given"]


def givers(regrade):
    return {line["machine"] for line in given(regrade)}


def answers(regrade, who, name):
    """The answers that the judge was asked about for one machine or attempt, by the file."""
    return {
        f"{line['trial']['variant'].upper()} {line['trial']['caseId']}"
        for line in given(regrade)
        if line[who] == name and "trial" in line and any("quiz" in grader for grader in line["graders"])
    }


def resume(regrade, *words, runner="celery"):
    options = [part for word in words for part in ("--distrust", word)]
    fast = ("--runner-option", "shards=2", "--runner-option", "lease_ttl_s=2") if runner == "celery" else ()
    return ["grade", regrade.path, "--runner", runner, *fast, "--resume", *options]


@pytest.mark.parametrize("who", ["machine", "attempt"])
@pytest.mark.parametrize("runner", ["celery", "local"])
def test_only_what_one_gave_is_given_again_and_the_grading_is_the_same(bed, here, graded, who, runner):
    victim = given(graded)[0][who]
    owed = answers(graded, who, victim)
    assert owed
    assert owed < bed.quiz.keys
    said = bed.mst(*resume(graded, f"{who}={victim}", runner=runner))
    assert said.code in (0, 1), said.err
    assert "dropped, to be given again" in said.err
    assert bed.quiz.calls() == dict.fromkeys(owed, 1)
    assert differences(here.path, graded.path) == []
    assert graded.run().phases.grade == "complete"
    if runner == "local":
        assert victim not in {line[who] for line in given(graded)}


def test_what_was_dropped_does_not_come_back_from_the_store_when_another_process_goes_on(bed, here, graded):
    victim = given(graded)[0]["machine"]
    owed = answers(graded, "machine", victim)
    bed.quiz.ask("hold")
    running = bed.begin(*resume(graded, f"machine={victim}"))
    until(lambda: bed.quiz.lines("held"), "a judge is held")
    os.killpg(running.pid, signal.SIGKILL)
    ended(running)
    assert graded.run().phases.grade == "partial"
    bed.quiz.let_go("hold")
    said = bed.mst("attach", graded.path)
    assert said.code in (0, 1), said.err
    assert bed.quiz.calls() == dict.fromkeys(owed, 1)
    assert differences(here.path, graded.path) == []
    assert len(graded.run().grading.runner.dispatches) == 2


def test_an_interrupted_regrade_is_taken_back_first_and_then_what_is_distrusted_is_dropped(bed, here):
    bed.ready(1)
    bed.quiz.ask("hold-c4")
    running = bed.start(shards=1)
    until(lambda: bed.quiz.lines("held"), "a judge is held")
    os.killpg(running.pid, signal.SIGKILL)
    ended(running)
    [first] = bed.fleet.workers.values()
    before = set(bed.quiz.lines("answered"))
    assert before
    family = first.family()
    first.kill()
    until(lambda: not any(alive(one) for one in family), "its children notice and end")
    bed.quiz.forget()
    regrade = bed.newest()
    again = bed.begin(*resume(regrade, f"machine={first.name}"), "--runner-option", "wait=true")
    until((bed.dispatch_folder(regrade, "d2") / "dispatch.json").exists, "the next dispatch is sent")
    del bed.fleet.workers[first.name]
    bed.fleet.start()
    said = ended(again)
    assert said.code in (0, 1), said.err
    assert bed.quiz.calls() == dict.fromkeys(bed.quiz.keys, 1)
    assert givers(regrade).isdisjoint({first.name})
    assert differences(here.path, regrade.path) == []


def test_one_who_gave_nothing_is_refused_and_nothing_is_dropped(bed, here, graded):
    said = bed.mst(*resume(graded, "machine=nobody"))
    assert said.code == 2
    assert said.error_lines[-1].endswith(f"known: {', '.join(sorted(givers(graded)))}")
    assert graded.run().phases.grade == "complete"
    assert differences(here.path, graded.path) == []


def test_it_needs_resume(bed, graded):
    said = bed.mst("grade", graded.path, "--distrust", "machine=w1")
    assert said.code == 2
    assert "add --resume" in said.err


def test_a_regrade_that_took_verdicts_of_another_says_where_to_distrust(bed, graded):
    victim = sorted(givers(graded))[0]
    said = bed.mst("grade", graded.path, "--reuse", graded.path)
    assert said.code in (0, 1), said.err
    said = bed.mst(*resume(bed.newest(), f"machine={victim}"))
    assert said.code == 2
    assert f"took verdicts of {graded.run_id}: distrust there" in said.err
