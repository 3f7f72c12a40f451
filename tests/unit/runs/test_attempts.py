"""Attempts of a trial on disk: all are kept, one counts, whatever moment the process dies at."""

from __future__ import annotations

import shutil

import pytest

from mst.model.keys import TrialKey
from mst.model.trial import TrialRecord
from mst.runs import attempts as module
from mst.runs.attempts import attempts_folder, kept_attempts, write_trial
from mst.runs.folder import RunFolder

RUN = "20260101T000000Z-abcdef"
KEY = TrialKey(variant="v", case_id="c", trial=0)


def record(attempt_id, kind=None):
    return TrialRecord(
        run_id=RUN,
        variant="v",
        case_id="c",
        dataset_name="d",
        trial=0,
        duration_ms=1,
        attempt_id=attempt_id,
        status="error" if kind else "completed",
        error_kind=kind,
        infrastructure_error=kind is not None,
    )


@pytest.fixture
def folder(tmp_path):
    home = tmp_path / RUN
    home.mkdir()
    return RunFolder(home)


@pytest.fixture
def left(tmp_path):
    """Makes a folder with one file, as a trial leaves it."""

    def make(text):
        found = tmp_path / f"left-{text}"
        found.mkdir()
        (found / "out.txt").write_text(text)
        return found

    return make


@pytest.fixture(autouse=True)
def _plain_source(monkeypatch):
    monkeypatch.setattr(RunFolder, "source", property(lambda self: self))


def shape(folder):
    """The trial's record and the kept ones: ID, number, what it replaced."""
    last = folder.trial(KEY)
    return [(found.attempt_id, found.attempt or 1, found.retry_of) for found in [*kept_attempts(folder, KEY), last]]


def test_attempts_of_one_session_are_kept_and_linked(folder, left):
    write_trial(folder, [(record("a", "environment"), left("one")), (record("b"), left("two"))])
    assert shape(folder) == [("a", 1, None), ("b", 2, "a")]
    [kept] = kept_attempts(folder, KEY)
    assert (folder.path / kept.artifacts / "out.txt").read_text() == "one"
    assert (folder.artifact_folder(KEY) / "out.txt").read_text() == "two"


def test_an_attempt_of_an_earlier_session_is_kept_and_linked(folder, left):
    write_trial(folder, [(record("a", "harness"), left("one"))])
    write_trial(folder, [(record("b", "environment"), None)])
    write_trial(folder, [(record("c"), left("three"))])
    assert shape(folder) == [("a", 1, None), ("b", 2, "a"), ("c", 3, "b")]
    assert (folder.artifact_folder(KEY) / "out.txt").read_text() == "three"


def test_a_record_without_an_id_is_kept_under_one_of_its_bytes(folder):
    write_trial(folder, [(record(None, "environment"), None)])
    write_trial(folder, [(record("b"), None)])
    [(first, _, _), (_, number, before)] = shape(folder)
    assert (number, before) == (2, first)
    assert len(first) == 16


def test_a_trial_that_was_collected_is_no_earlier_attempt(folder):
    write_trial(folder, [(record("a"), None)])
    write_trial(folder, [(record("b"), None)])
    assert shape(folder) == [("b", 1, None)]


def test_writing_the_same_attempts_again_changes_nothing(folder):
    chain = [(record("a", "environment"), None), (record("b", "environment"), None), (record("c"), None)]
    write_trial(folder, chain)
    before = shape(folder)
    write_trial(folder, chain)
    assert shape(folder) == before


class Killed(BaseException):
    """Stands for SIGKILL at one step."""


@pytest.mark.parametrize("at", range(6))
def test_a_process_that_dies_at_any_step_leaves_one_record_and_every_attempt(folder, left, monkeypatch, at):
    write_trial(folder, [(record("a", "environment"), left("one"))])
    steps = iter(range(100))
    real_write, real_move = module.write_atomic, shutil.move

    def dying(real):
        def step(*given):
            if next(steps) == at:
                raise Killed
            return real(*given)

        return step

    chain = [(record("b", "environment"), left("two")), (record("c"), left("three"))]
    with monkeypatch.context() as patched:
        patched.setattr(module, "write_atomic", dying(real_write))
        patched.setattr("mst.runs.folder.write_atomic", dying(real_write))
        patched.setattr(shutil, "move", dying(real_move))
        with pytest.raises(Killed):
            write_trial(folder, chain)
    present = folder.trial(KEY)
    assert present.attempt_id == "a"
    assert present.infrastructure_error, "a resume makes it again"
    # The next session does the trial anew; what the dead one kept is linked too.
    write_trial(folder, [(record("d"), None)])
    found = shape(folder)
    assert found[-1][0] == "d"
    assert found[-1][1] == len(found)
    assert [entry[2] for entry in found[1:]] == [entry[0] for entry in found[:-1]]
    assert attempts_folder(folder, KEY).joinpath("a", "artifacts", "out.txt").read_text() == "one"
