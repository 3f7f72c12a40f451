import pytest

from mst.model.run import Phases
from mst.runs.latest import publish_latest
from mst.runs.listed import local_runs, state_of, stored_runs
from mst.runs.locate import find_run
from mst.runs.stored import push_folder
from mst.store.memory import MemoryStore
from mst.testing.stored_run import collect_run, grade_here, write_echo_eval


@pytest.fixture
def root(tmp_path):
    return tmp_path / "results"


@pytest.fixture
def graded(run, tmp_path, root):
    folder = grade_here(run, tmp_path / "scratch").folder
    publish_latest(folder)
    return folder


def test_runs_are_listed_with_gradings_on_top_of_their_source(graded, run, root):
    listed = local_runs(root)
    assert [one.run.run_id for one in listed.runs] == [graded.run_id, run.run_id]
    top, below = listed.runs
    assert (top.state, top.latest, below.state, below.latest) == ("complete", True, "collected", False)
    assert [(found.name, found.pass_rate) for found in top.variants] == [("plain", 0.0), ("polite", 1.0)]
    assert below.variants == []
    assert top.short_id == graded.run_id.split("-")[1]


def test_at_most_so_many_are_read_and_the_rest_is_counted(graded, root):
    listed = local_runs(root, limit=1)
    assert [one.run.run_id for one in listed.runs] == [graded.run_id]
    assert listed.more == 1


def test_one_eval_can_be_asked_for(graded, root, tmp_path):
    collect_run(write_echo_eval(tmp_path / "other", name="an/other"), root)
    assert {one.run.eval_name for one in local_runs(root).runs} == {"echoes", "an/other"}
    assert {one.run.eval_name for one in local_runs(root, eval_name="an/other").runs} == {"an/other"}
    assert local_runs(root, eval_name="unknown").runs == []


def test_a_run_that_cannot_be_read_hides_no_other(graded, run, root):
    (run.path / "run.json").write_text("{")
    listed = local_runs(root)
    assert [one.run.run_id for one in listed.runs] == [graded.run_id]
    assert [str(run.path / "run.json") in str(error) for error in listed.wrong] == [True]


def test_a_run_that_is_being_written_is_running(graded, root):
    with graded.locked():
        assert [one.state for one in local_runs(root).runs] == ["running", "collected"]


def test_no_results_root_is_no_runs(tmp_path):
    assert local_runs(tmp_path / "nothing").runs == []


def test_a_broken_pointer_to_the_latest_changes_nothing_else(graded, root):
    (root / "echoes" / "latest.json").write_text("{")
    assert [one.latest for one in local_runs(root).runs] == [False, False]


def test_runs_of_a_store_say_the_same(graded, run, root):
    store = MemoryStore("listed")
    push_folder(store, graded)
    here, there = local_runs(root), stored_runs(store)
    assert [(one.run, one.state, one.latest, one.variants) for one in there.runs] == [
        (one.run, one.state, one.latest, one.variants) for one in here.runs
    ]
    assert stored_runs(store, limit=1).more == 1
    assert stored_runs(store, eval_name="unknown").runs == []


def test_a_manifest_that_cannot_be_read_hides_no_other(graded, run):
    store = MemoryStore("broken")
    push_folder(store, graded)
    store.put(f"echoes/runs/{run.run_id}/manifest.1.json", b"{")
    listed = stored_runs(store)
    assert [one.run.run_id for one in listed.runs] == [graded.run_id]
    assert len(listed.wrong) == 1


@pytest.mark.parametrize(
    ("collect", "grade", "state"),
    [
        ("complete", "skipped", "collected"),
        ("partial", "skipped", "collect partial"),
        ("complete", "partial", "grade partial"),
        ("complete", "complete", "complete"),
        ("failed", "skipped", "failed"),
    ],
)
def test_states_are_words(run, collect, grade, state):
    record = run.run().model_copy(update={"phases": Phases(collect=collect, grade=grade)})
    assert state_of(record) == state


def test_an_evals_folder_names_its_latest_run(graded, root):
    assert find_run(str(root / "echoes"), root).run_id == graded.run_id
