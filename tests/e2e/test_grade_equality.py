"""One stored run, graded in every place: the same regrade, also when a worker dies in the middle."""

import os
import shutil

import psutil
import pytest

from mst.runs.folder import RunFolder
from mst.runs.locate import regrades_of
from mst.testing.commandline import ended, run_mst, start_mst, until
from mst.testing.equality import differences
from mst.testing.fleet import alive
from mst.testing.sample_eval import BROKEN_CASE, answers, calls, write_sample_eval

RUNNERS = [
    pytest.param(["--runner", "process", "--runner-option", "shards=3"], id="process"),
    pytest.param(["--runner", "celery", "--runner-option", "shards=3"], id="celery", marks=pytest.mark.server),
]


class Stored:
    """A collected run of the sample eval, and its grading in one process."""

    def __init__(self, home):
        self.home = home
        self.marks = home / "marks"
        config = write_sample_eval(home, self.marks, concurrency=1)
        collected = run_mst("run", config, "--no-grade", cwd=home)
        assert collected.code == 0, collected.err
        [self.run] = (home / ".mst-results" / "sample" / "runs").iterdir()
        self.here = self.grade()

    def grade(self, *options):
        """Grade as a new regrade and return its folder; a grading error makes it partial."""
        (self.marks / "calls").unlink(missing_ok=True)
        said = run_mst("grade", self.run, *options, cwd=self.home)
        assert said.code == 3, said.err
        return regrades_of(RunFolder(self.run))[-1].path


@pytest.fixture(scope="module")
def stored(tmp_path_factory):
    return Stored(tmp_path_factory.mktemp("stored"))


def test_the_sample_has_verdicts_errors_and_skips(stored):
    folder = RunFolder(stored.here)
    summary = folder.summary()
    assert summary.grader_errors == {"judge.reader": 6, "pairwise.taste": 2}
    scores = [
        score for result in folder.case_results() for trial in result.trial_results for score in trial.scores.items()
    ]
    assert any(score.skipped for name, score in scores if name == "judge.answers")
    assert any(score.checks for name, score in scores if name == "checks")
    assert {preference.preference.consistent for preference in folder.preferences()} == {True, False, None}
    assert folder.run().phases.grade == "partial"


def test_two_gradings_that_differ_are_told_apart(stored, tmp_path):
    other = shutil.copytree(stored.here, tmp_path / "other")
    score = next((other / "scores" / "there").rglob("*.json"))
    score.write_text(score.read_text().replace('"pass":true', '"pass":false'))
    (other / "results.json").unlink()
    found = differences(stored.here, other)
    assert len(found) == 2
    assert found[0].startswith("results.json: only in")
    assert ".score.pass: true / false" in found[1]


@pytest.mark.parametrize("runner", RUNNERS)
def test_every_runner_gives_the_same_regrade(stored, runner):
    there = stored.grade(*runner)
    assert differences(stored.here, there) == []
    assert RunFolder(there).run().grading.runner.name == runner[1]


@pytest.mark.parametrize("runner", RUNNERS)
def test_a_worker_killed_in_the_middle_changes_nothing(stored, runner):
    (stored.marks / "kill-worker-reader-c1").touch()
    there = stored.grade(*runner)
    assert (stored.marks / "done-kill-worker-reader-c1").exists()
    assert differences(stored.here, there) == []
    asked = calls(stored.marks)
    twice = {key for key, times in asked.items() if times > 1}
    # one unit was in flight; its judges may have been asked already
    [killed] = {key.split()[2] for key in twice}
    assert killed in {answer for key, answer in answers(stored.run).items() if "/c1/" in key}
    assert max(asked.values()) == 2
    machines = RunFolder(there).run().grading.runner.machines
    last = [max(int(attempt.partition("-")[0]) for attempt in machine.attempts) for machine in machines]
    assert sorted(last) == [1, 1, 2]


@pytest.mark.server
def test_a_celery_worker_killed_whole_changes_nothing(stored):
    for name in ("calls", "waiting"):
        (stored.marks / name).unlink(missing_ok=True)
    (stored.marks / "wait-reader-c1").touch()
    os.mkfifo(stored.marks / "go")
    running = start_mst("grade", stored.run, "--runner", "celery", "--runner-option", "shards=3", cwd=stored.home)
    judge = psutil.Process(int(until(lambda: reads(stored.marks / "waiting"), "a judge waits")))
    shard_worker = judge.parent()
    celery_worker = shard_worker.parent()
    assert "worker" in celery_worker.cmdline()
    celery_worker.kill()
    until(lambda: not any(alive(one) for one in (judge, shard_worker)), "what it ran ends too")
    said = ended(running)
    assert said.code == 3, said.err
    there = regrades_of(RunFolder(stored.run))[-1].path
    assert differences(stored.here, there) == []
    asked = calls(stored.marks)
    assert max(asked.values()) == 2
    # the killed worker had one unit in flight, of one answer or of a pair
    [killed] = {key.split()[2] for key, times in asked.items() if times > 1}
    assert killed in {answer for key, answer in answers(stored.run).items() if "/c1/" in key}


def reads(path):
    return path.read_text() if path.exists() else ""


@pytest.mark.parametrize("runner", RUNNERS)
def test_a_unit_that_kills_its_worker_twice_is_given_up_and_the_rest_goes_on(stored, runner):
    (stored.marks / "kill-worker-reader-c6").touch()
    (stored.marks / "kill-worker-reader-c6-again").touch()
    there = stored.grade(*runner)
    found = differences(stored.here, there)
    folder = RunFolder(there)
    given_up = [
        (trial.trial, result.variant)
        for result in folder.case_results()
        for trial in result.trial_results
        if "crashed the worker twice" in (trial.grading_error or "")
    ]
    assert len(given_up) == 1
    assert {line.split(":")[0].split("/")[-2] for line in found if line.startswith("scores/j")} == {"c6"}
    assert f"/{BROKEN_CASE}/" not in "".join(found)
