"""Gradings that are interrupted or lose their coordinator: what was finished is kept, and resume does the rest once."""

import os
import signal

import psutil
import pytest

from mst.runs.folder import RunFolder
from mst.runs.locate import regrades_of
from mst.store.layout import RunKeys
from mst.store.uri import open_store
from mst.testing.commandline import ended, run_mst, start_mst, until
from mst.testing.equality import differences
from mst.testing.fleet import stored_units
from mst.testing.sample_eval import BROKEN_CASE, BROKEN_COMPARISON, answers, calls, write_sample_eval

LOCAL = []
PROCESS = ["--runner", "process", "--runner-option", "shards=2"]
CELERY = ["--runner", "celery", "--runner-option", "shards=2"]
RUNNERS = [
    pytest.param(LOCAL, id="local"),
    pytest.param(PROCESS, id="process"),
    pytest.param(CELERY, id="celery", marks=pytest.mark.server),
]


class Interrupted:
    """A stored run, one of whose judge calls waits until the test lets it go on."""

    def __init__(self, home):
        self.home = home
        self.marks = home / "marks"
        config = write_sample_eval(home, self.marks, concurrency=1, trials=1)
        assert run_mst("run", config, "--no-grade", cwd=home).code == 0
        [run] = (home / ".mst-results" / "sample" / "runs").iterdir()
        self.source = RunFolder(run)
        os.mkfifo(self.marks / "go")

    def grade_until_it_waits(self, *options):
        """Start grading and return its process when one judge waits."""
        for name in ("calls", "waiting"):
            (self.marks / name).unlink(missing_ok=True)
        (self.marks / "wait-reader-c4").touch()
        process = start_mst("grade", self.source.path, *options, cwd=self.home)
        until((self.marks / "waiting").exists, "a judge waits")
        return process

    @property
    def judge(self):
        """Process ID of the judge that waits."""
        return int(until((self.marks / "waiting").read_text, "its process ID"))

    def let_go(self):
        os.close(os.open(self.marks / "go", os.O_WRONLY))

    def settle_on_the_fleet(self):
        """Wait until the shard without the judge that waits is committed, and what the other graded is durable."""
        uri = f"file:{self.home / '.mst-results' / '.fleet'}"
        store = open_store(uri, environ={})
        keys = RunKeys("sample", self.newest().run_id).dispatch("d1")
        until(lambda: any(store.head(keys.shard(one).manifest) for one in range(2)), "a shard is committed")
        [waits] = {frozenset(key.split()[2:]) for key in calls(self.marks) if key.startswith("reader c4 ")}
        until(lambda: self.asked() - {waits} <= self.graded(store, keys), "what was graded is durable")

    def asked(self):
        """The answer, or the two, of each unit that a judge was asked about."""
        return {frozenset(key.split()[2:]) for key in calls(self.marks)}

    def graded(self, store, keys):
        """The same of each unit that is in a store."""
        found = answers(self.source.path)
        of = lambda variant, case: found[f"{variant}/{case}/0"]  # noqa: E731 - there is one trial of each
        units = list(stored_units(store, keys))
        trials = [unit.trial_grading.key for unit in units if unit.trial_grading is not None]
        pairs = [unit.comparison_grading.key for unit in units if unit.comparison_grading is not None]
        return {frozenset({of(key.variant, key.case_id)}) for key in trials} | {
            frozenset({of("base", key.case_id), of(key.candidate, key.case_id)}) for key in pairs
        }

    def newest(self):
        return regrades_of(self.source)[-1]

    def resume(self, regrade, *options):
        said = run_mst("grade", regrade.path, "--resume", *options, cwd=self.home)
        assert said.code == 3, said.err
        return said


@pytest.fixture(scope="module")
def eval_(tmp_path_factory):
    return Interrupted(tmp_path_factory.mktemp("interrupted"))


@pytest.fixture(scope="module")
def whole(eval_):
    """The same run graded without a break."""
    assert run_mst("grade", eval_.source.path, cwd=eval_.home).code == 3
    return eval_.newest().path


def not_mended(key):
    return key.startswith((f"reader {BROKEN_CASE} ", f"taste {BROKEN_COMPARISON} "))


def asked_twice(marks):
    return {key for key, times in calls(marks).items() if times > 1 and not not_mended(key)}


@pytest.mark.parametrize("runner", RUNNERS)
def test_the_first_interrupt_keeps_what_is_there_and_resume_does_the_rest(eval_, whole, runner):
    process = eval_.grade_until_it_waits(*runner)
    process.send_signal(signal.SIGINT)
    until(lambda: "stopping after the units in flight" in process.stderr.readline(), "the interrupt is heard")
    eval_.let_go()
    said = ended(process)
    assert said.code == 130, said.err
    regrade = eval_.newest()
    assert regrade.run().phases.grade == "partial"
    assert regrade.summary().grader_errors
    before = calls(eval_.marks)
    assert any(key.startswith("reader c4 ") for key in before)
    eval_.resume(regrade, *runner)
    assert sum(calls(eval_.marks).values()) > sum(before.values())
    assert asked_twice(eval_.marks) == set()
    assert differences(whole, regrade.path) == []


@pytest.mark.parametrize("runner", RUNNERS)
def test_a_second_interrupt_leaves_at_once(eval_, runner):
    process = eval_.grade_until_it_waits(*runner)
    judge = eval_.judge
    family = [psutil.Process(judge), *psutil.Process(process.pid).children(recursive=True)]
    process.send_signal(signal.SIGINT)
    until(lambda: "stopping" in process.stderr.readline(), "the first interrupt is heard")
    process.send_signal(signal.SIGINT)
    said = ended(process)
    assert said.code == 130
    assert "Traceback" not in said.err
    until(lambda: not any(alive(one) for one in family), "nothing of it is left")


@pytest.mark.parametrize(
    ("runner", "how"),
    [
        pytest.param(LOCAL, "resume", id="local"),
        pytest.param(PROCESS, "resume", id="process"),
        pytest.param(CELERY, "resume", id="celery", marks=pytest.mark.server),
        pytest.param(CELERY, "attach", id="celery-attach", marks=pytest.mark.server),
    ],
)
def test_a_coordinator_killed_in_the_middle_is_finished_by_resume(eval_, whole, runner, how):
    process = eval_.grade_until_it_waits(*runner)
    if runner == CELERY:
        # a fleet's units are in its store a moment after they ended
        eval_.settle_on_the_fleet()
    judge = psutil.Process(eval_.judge)
    family = [judge, *psutil.Process(process.pid).children(recursive=True)]
    process.kill()
    assert ended(process).code == -signal.SIGKILL
    if runner == LOCAL:
        # nobody is left to end it: the judge of a killed coordinator lives until its answer is not wanted
        judge.kill()
    until(lambda: not any(alive(one) for one in family), "no worker or judge goes on")
    regrade = eval_.newest()
    if how == "attach":
        said = run_mst("attach", regrade.run_id.partition("-")[2], cwd=eval_.home)
        assert said.code == 3, said.err
    else:
        eval_.resume(regrade, *runner)
    # each shard had at most one unit in flight, and of the fleet's two one was over
    assert len({tuple(key.split()[2:]) for key in asked_twice(eval_.marks)}) <= (2 if runner == PROCESS else 1)
    assert differences(whole, regrade.path) == []


def test_a_worker_that_is_told_to_end_finishes_its_unit_and_another_does_the_rest(eval_, whole):
    process = eval_.grade_until_it_waits(*PROCESS)
    worker = psutil.Process(eval_.judge).parent()
    worker.terminate()
    eval_.let_go()
    said = ended(process)
    assert said.code == 3, said.err
    regrade = eval_.newest()
    assert asked_twice(eval_.marks) == set()
    assert differences(whole, regrade.path) == []
    assert sorted(len(machine.attempts) for machine in regrade.run().grading.runner.machines) == [1, 2]


def alive(process):
    try:
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def test_resume_with_nothing_to_do_says_so(eval_, whole):
    (eval_.marks / "mended").touch()
    try:
        regrade = eval_.newest()
        first = run_mst("grade", regrade.path, "--resume", cwd=eval_.home)
        assert first.code in (0, 1), first.err
        assert regrade.run().phases.grade == "complete"
        (eval_.marks / "calls").unlink()
        said = run_mst("grade", regrade.path, "--resume", cwd=eval_.home)
    finally:
        (eval_.marks / "mended").unlink()
    assert said.code == 0
    assert "nothing to do" in said.err
    assert not calls(eval_.marks)
