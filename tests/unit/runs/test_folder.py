"""What lies in a run folder: written whole, read with care."""

import fcntl
import json
import multiprocessing
import os
import shutil
import threading

import pytest

from mst.config import files
from mst.errors import CorruptFile, DigestMismatch, FormatError, ObjectMissing, UsageError
from mst.model.keys import TrialKey
from mst.runs import folder
from mst.runs.folder import RunFolder
from mst.runs.intact import refuse_altered
from mst.runs.results import ResultsWriter
from mst.testing.stored_run import collect_run, grade_here, write_echo_eval

KEY = TrialKey(variant="polite", case_id="case-0", trial=0)


def spoil(path, change):
    document = json.loads(path.read_bytes())
    document.update(change)
    path.write_text(json.dumps(document))


def test_only_one_writer_holds_a_run(run):
    with run.locked(), pytest.raises(UsageError, match="another mst process"), RunFolder(run.path).locked():
        pass
    with RunFolder(run.path).locked():
        pass


def test_what_a_killed_writer_left_is_gone_once_another_holds_the_run(run):
    left = run.path / "scores" / "exact" / "a" / ".0.json.15025.140137479068544.tmp"
    left.parent.mkdir(parents=True, exist_ok=True)
    kept = [
        left.with_name("0.json.tmp"),
        run.path / "artifacts" / "polite" / ".mine.1.2.tmp",
        run.path / ".work" / ".unit.json.1.2.tmp",
    ]
    for path in (left, *kept):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("half")
    with run.locked():
        assert not left.exists()
        assert all(path.read_text() == "half" for path in kept)
        left.write_text("half")
        with pytest.raises(UsageError), RunFolder(run.path).locked():
            pass
        assert left.exists(), "who does not hold it removes nothing"


def test_the_lock_goes_with_its_process(run):
    def hold(path, ready):
        with RunFolder(path).locked():
            ready.set()
            threading.Event().wait()

    context = multiprocessing.get_context("fork")
    ready = context.Event()
    holder = context.Process(target=hold, args=(run.path, ready), daemon=True)
    holder.start()
    assert ready.wait(20)
    with pytest.raises(UsageError), run.locked():
        pass
    holder.kill()
    holder.join(20)
    with run.locked():
        pass


def test_a_reader_never_sees_half_a_file(run):
    record = run.run()
    over = threading.Event()
    short, long = (record.model_copy(update={"config_path": "x" * length}) for length in (10, 200_000))
    run.write_run(short)

    def write():
        while not over.is_set():
            run.write_run(short)
            run.write_run(long)

    writer = threading.Thread(target=write)
    writer.start()
    try:
        seen = {len(RunFolder(run.path).run().config_path) for _ in range(150)}
    finally:
        over.set()
        writer.join()
    assert seen <= {10, 200_000}
    assert [path.name for path in run.path.glob(".*.tmp")] == []


def test_a_regrade_reads_its_source_in_place_and_stands_alone_with_a_copy(run, tmp_path):
    graded = grade_here(run, tmp_path / "scratch").folder
    assert RunFolder(graded.path).source.path == run.path
    assert graded.trial_bytes(KEY) == run.trial_bytes(KEY)
    shutil.copytree(run.path / "transcripts", graded.path / "transcripts")
    assert RunFolder(graded.path).source.path == graded.path


@pytest.mark.parametrize(
    ("content", "error", "says"),
    [
        (b"", CorruptFile, "not a readable JSON"),
        (b'{"format": "mst.run/v1", "kind": "trial", "run', CorruptFile, "not a readable JSON"),
        (b"\xff\xfe", CorruptFile, "not a readable JSON"),
        (b'{"format": "mst.run/v1", "kind": "run"}', CorruptFile, "a trial was expected"),
        (b'{"format": "mst.run/v1", "kind": "trial"}', CorruptFile, "Field required"),
        (b'{"format": "mst.run/v2", "kind": "trial"}', FormatError, "upgrade"),
        (b'{"format": "mst.run/v0", "kind": "trial"}', FormatError, "rerun"),
        (b'{"format": "other/v1", "kind": "trial"}', CorruptFile, "other/v1"),
    ],
)
def test_a_record_that_cannot_be_read_is_named(run, content, error, says):
    path = run.trial_path(KEY)
    path.write_bytes(content)
    with pytest.raises(error, match=says) as found:
        run.trial(KEY)
    assert str(found.value).startswith(str(path))
    assert "\n" not in str(found.value)


def test_another_trials_record_is_not_taken(run):
    path = run.trial_path(KEY)
    shutil.copyfile(run.trial_path(KEY.model_copy(update={"case_id": "case-1"})), path)
    with pytest.raises(CorruptFile, match="another trial"):
        run.trial(KEY)
    with pytest.raises(CorruptFile, match="another trial"):
        run.subject(run.cases()["case-0"], KEY)


def test_a_spoiled_line_of_the_results_is_named(run, tmp_path):
    graded = grade_here(run, tmp_path / "scratch").folder
    path = graded.path / "results.json"
    assert len(list(graded.case_results())) == 8
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join([*lines[:3], lines[3][:40] + b"\n", *lines[4:]]))
    with pytest.raises(CorruptFile, match=r"results\.json:4"):
        list(graded.case_results())


def test_results_appear_whole_or_not_at_all(tmp_path, run):
    path = tmp_path / "results.json"
    (tmp_path / ".results.json.999999.tmp").write_text("of a process that is gone")
    with pytest.raises(RuntimeError), ResultsWriter(path, run.run_id):
        raise RuntimeError
    assert list(tmp_path.glob("*results.json*")) == []
    with ResultsWriter(path, run.run_id):
        pass
    assert json.loads(path.read_bytes())["cases"] == []


def with_artifact(run):
    """Give the trial an artifact, as a client with a workspace leaves one."""
    import hashlib

    folder = run.artifact_folder(KEY)
    folder.mkdir(parents=True)
    (folder / "out.txt").write_text("what it left")
    listed = {"path": "out.txt", "sha256": hashlib.sha256(b"what it left").hexdigest(), "size": 12}
    spoil(run.trial_path(KEY), {"artifactFiles": [listed]})
    return folder / "out.txt"


def test_sound_artifacts_pass(run):
    with_artifact(run)
    refuse_altered(run, [KEY, KEY.model_copy(update={"trial": 9})])


def test_a_missing_artifact_is_named(run):
    path = with_artifact(run)
    path.unlink()
    with pytest.raises(ObjectMissing, match="missing") as found:
        refuse_altered(run, [KEY])
    assert str(path) in str(found.value)


def test_an_altered_artifact_is_named(run):
    path = with_artifact(run)
    path.write_text("something else")
    with pytest.raises(DigestMismatch, match="changed since") as found:
        refuse_altered(run, [KEY])
    assert str(path) in str(found.value)


def test_a_folder_without_a_record_is_no_run(tmp_path):
    with pytest.raises(UsageError, match=r"no run\.json"):
        RunFolder(tmp_path).run()


def test_asking_who_writes_a_run_changes_nothing_and_bars_no_writer(run, monkeypatch):
    monkeypatch.setattr(folder, "LOCK_TRIES", 1_000)
    (run.path / ".lock").unlink()
    assert not run.is_locked()
    assert not (run.path / ".lock").exists()
    with run.locked():
        assert run.is_locked()
    descriptor = os.open(run.path / ".lock", os.O_RDONLY)
    fcntl.flock(descriptor, fcntl.LOCK_SH)
    asking = threading.Timer(0.02, os.close, [descriptor])
    asking.start()
    with run.locked():
        assert run.is_locked()
    asking.join()


def cut(path):
    path.write_bytes(path.read_bytes()[:-40])


def without_its_end(path):
    path.write_bytes(b"".join(path.read_bytes().splitlines(keepends=True)[:-1]))


def a_folder(path):
    path.unlink()
    path.mkdir()


def a_pipe(path):
    path.unlink()
    os.mkfifo(path)


def a_device(path):
    path.unlink()
    path.symlink_to("/dev/zero")


def a_circle(path):
    path.unlink()
    path.symlink_to(path.name)


def beyond_all_bounds(path):
    os.truncate(path, files.MAX_STORED_BYTES + 1)


READERS = {
    "run.json": lambda graded: graded.run(),
    "summary.json": lambda graded: graded.summary(),
    "results.json": lambda graded: list(graded.case_results()),
    "inputs/cases.jsonl": lambda graded: graded.cases(),
    "transcripts/polite/case-0/0.json": lambda graded: graded.trial(KEY),
    "scores/contains_text/polite/case-0/0.json": lambda graded: graded.score("contains_text", KEY),
}


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """A run with its regrade: the folder that holds both, and the regrade's path."""
    home = tmp_path_factory.mktemp("made")
    run = collect_run(write_echo_eval(home / "eval"), home / "results")
    return run.path.parent, grade_here(run, home / "scratch").folder.path


@pytest.fixture
def graded(made, tmp_path):
    """A copy of the regrade, with its run beside it."""
    runs, path = made
    shutil.copytree(runs, tmp_path / "runs")
    return RunFolder(tmp_path / "runs" / path.name)


@pytest.mark.parametrize("name", READERS)
@pytest.mark.parametrize("damage", [cut, a_folder, a_pipe, a_device, a_circle, beyond_all_bounds])
def test_whatever_stands_where_a_document_was_is_said_at_once(graded, name, damage, monkeypatch):
    monkeypatch.setattr(files, "MAX_STORED_BYTES", 1_000_000)
    monkeypatch.setattr(files, "MAX_LINE_BYTES", 1_000_000)
    place = (graded.source if name.startswith("transcripts") else graded).path / name
    damage(place)
    with pytest.raises(CorruptFile) as said:
        READERS[name](graded)
    assert str(place) in str(said.value)
    assert len(str(said.value).splitlines()) == 1


def without_a_line(path):
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join([*lines[:3], *lines[4:]]))


def with_a_line_twice(path):
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join([*lines[:3], lines[2], *lines[3:]]))


def without_a_count(path):
    path.write_bytes(path.read_bytes().replace(b',"caseCount":8}', b"}"))


@pytest.mark.parametrize(
    "damage",
    [
        *(without_its_end, without_a_line, with_a_line_twice),
        *(lambda path: path.unlink(), lambda path: path.write_text("{}")),
    ],
)
def test_results_that_are_not_whole_are_no_shorter_results(graded, damage):
    damage(graded.path / "results.json")
    with pytest.raises(CorruptFile, match=r"results.json: .*mst grade"):
        list(graded.case_results())


def test_results_of_an_earlier_mst_have_no_count(graded):
    whole = list(graded.case_results())
    without_a_count(graded.path / "results.json")
    assert b"caseCount" not in (graded.path / "results.json").read_bytes()
    assert list(graded.case_results()) == whole


def test_how_a_trial_ended_is_read_without_the_rest_of_its_record(run):
    state, record = run.trial_state(KEY), run.trial(KEY)
    assert (state.status, state.infrastructure_error) == (record.status, record.infrastructure_error)
    assert state.is_scorable is record.is_scorable
    assert run.trial_state(KEY.model_copy(update={"trial": 9})) is None
    shutil.copyfile(run.trial_path(KEY.model_copy(update={"case_id": "case-1"})), run.trial_path(KEY))
    with pytest.raises(CorruptFile, match="another trial"):
        run.trial_state(KEY)
