"""Coordinators of embedded fleets that are killed at moments drawn by a seed: `mst attach` comes to the same end."""

import os
import random
import shutil
import signal
import subprocess

import pytest

from mst.runs.locate import all_runs
from mst.testing.commandline import ended, run_mst, start_mst
from mst.testing.equality import differences
from mst.testing.quiz_eval import Quiz

pytestmark = [pytest.mark.server, pytest.mark.long, pytest.mark.timeout(1200)]

SEED = 7
ROUNDS = 6
LATEST_S = 12.0


def killed_after(process, seconds, *, group):
    """Kill a command after a while, with its group or alone; whether it was still there."""
    try:
        process.communicate(timeout=seconds)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL) if group else process.kill()
        process.communicate()
        return True
    return False


def test_whenever_it_is_killed_the_grading_is_that_of_one_process(tmp_path):
    quiz = Quiz(tmp_path / "quiz")
    quiz.ask("slow")
    assert run_mst("run", quiz.config, "--no-grade", cwd=quiz.home).code == 0
    home, drawn = tmp_path / "here", random.Random(SEED)
    shutil.copytree(quiz.home, home)
    assert run_mst("grade", "latest", cwd=home).code in (0, 1)
    whole = newest(home)
    for number in range(ROUNDS):
        home = tmp_path / f"round-{number}"
        shutil.copytree(quiz.home, home)
        source, after, group = newest(home), drawn.uniform(0.2, LATEST_S), drawn.random() < 0.5
        again, twice = drawn.uniform(0.2, LATEST_S), drawn.random() < 0.3
        grade = ["grade", "latest", "--runner", "celery", "--runner-option", "shards=3"]
        begun = start_mst(*grade, cwd=home, new_session=True)
        if not killed_after(begun, after, group=group):
            assert newest(home).run().phases.grade == "complete"
            continue
        what = f"round {number}, killed after {after:.2f} s"
        if twice and newest(home).run_id != source.run_id:
            killed_after(start_mst("attach", source.run_id, cwd=home, new_session=True), again, group=group)
        goes_on = ["attach", source.run_id] if is_open(home, source) else grade
        over = ended(start_mst(*goes_on, cwd=home))
        assert over.code in (0, 1), f"{what}: {over.err}"
        assert differences(whole.path, newest(home).path) == [], what
        assert list((home / ".mst-results" / ".fleet").glob("quiz/dispatches/*")) == [], what


def newest(home):
    return max(all_runs(home / ".mst-results"), key=lambda folder: folder.run_id)


def is_open(home, source):
    """Whether there is a regrade that was not ended: its report is written last."""
    regrade = newest(home)
    return regrade.run_id != source.run_id and not (regrade.path / "report" / "index.html").is_file()
