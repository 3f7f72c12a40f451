"""`--distrust` without a fleet: shards in processes of this machine."""

import json

import pytest

from mst.runs.folder import RunFolder
from mst.runs.locate import regrades_of
from mst.testing.commandline import run_mst
from mst.testing.equality import differences
from mst.testing.quiz_eval import Quiz

SHARDS = ("--runner", "process", "--runner-option", "shards=2")


@pytest.fixture(scope="module")
def quiz(tmp_path_factory):
    return Quiz(tmp_path_factory.mktemp("quiz"))


@pytest.fixture(scope="module")
def source(quiz):
    said = run_mst("run", quiz.config, "--no-grade", cwd=quiz.home)
    assert said.code == 0, said.err
    [run] = (quiz.home / ".mst-results" / "quiz" / "runs").iterdir()
    return RunFolder(run)


@pytest.fixture
def graded(quiz, source):
    said = run_mst("grade", source.path, *SHARDS, cwd=quiz.home)
    assert said.code in (0, 1), said.err
    quiz.forget()
    return regrades_of(source)[-1]


def lines(graded):
    return [json.loads(line) for line in (graded.path / "authors.jsonl").read_text().splitlines()]


def test_what_one_attempt_gave_is_given_again_and_then_by_another(quiz, source, graded):
    first = lines(graded)[0]["attempt"]
    others = {line["attempt"] for line in lines(graded)} - {first}
    assert len(others) == 1
    said = run_mst("grade", source.path, cwd=quiz.home)
    assert said.code in (0, 1), said.err
    here = regrades_of(source)[-1]
    quiz.forget()
    said = run_mst("grade", graded.path, *SHARDS, "--resume", "--distrust", f"attempt={first}", cwd=quiz.home)
    assert said.code in (0, 1), said.err
    assert set(quiz.calls().values()) == {1}
    assert 0 < len(quiz.calls()) < len(quiz.keys)
    assert differences(here.path, graded.path) == []
    found = {line["attempt"] for line in lines(graded) if line["type"] == "given"}
    assert first not in found
    assert others < found


def test_two_at_once_are_dropped_together(quiz, graded):
    attempts = sorted({line["attempt"] for line in lines(graded)})
    words = [word for one in attempts for word in ("--distrust", f"attempt={one}")]
    said = run_mst("grade", graded.path, *SHARDS, "--resume", *words, cwd=quiz.home)
    assert said.code in (0, 1), said.err
    assert quiz.calls() == dict.fromkeys(quiz.keys, 1)


def test_a_resume_without_it_still_has_nothing_to_do(quiz, graded):
    said = run_mst("grade", graded.path, *SHARDS, "--resume", cwd=quiz.home)
    assert said.code == 0
    assert "nothing to do" in said.err
    assert not quiz.calls()


def test_a_grading_of_one_process_is_refused_with_what_to_do(quiz, source):
    said = run_mst("grade", source.path, cwd=quiz.home)
    assert said.code in (0, 1), said.err
    regrade = regrades_of(source)[-1]
    said = run_mst("grade", regrade.path, "--resume", "--distrust", "machine=here", cwd=quiz.home)
    assert said.code == 2
    assert f"mst grade {source.run_id}" in said.err
    assert regrade.run().phases.grade == "complete"
