import pytest

from mst.runs.latest import publish_latest
from mst.runs.previous import previous_run
from mst.testing.stored_run import collect_run, grade_here, write_echo_eval


def graded(tmp_path, name, cases, *, polite="please {{input}}", **config):
    variants = [{"name": "plain", "input_template": "{{input}}"}, {"name": "polite", "input_template": polite}]
    path = write_echo_eval(tmp_path / "eval", cases=cases, variants=variants, **config)
    folder = grade_here(collect_run(path, tmp_path / "results"), tmp_path / name).folder
    publish_latest(folder)
    return folder


def changed(folder, variant):
    return folder.summary().previous_run.variants[variant]


def test_cases_that_moved_since_the_run_before_are_named(tmp_path):
    first = graded(tmp_path, "one", {"stays": {}, "falls": {}, "leaves": {}})
    cases = {"stays": {}, "falls": {"assertions": [{"contains_text": "thanks"}]}, "comes": {}}
    second = graded(tmp_path, "two", cases)
    previous = second.summary().previous_run
    assert (previous.run_id, previous.same_config) == (first.run_id, True)
    assert changed(second, "polite") == {
        "passRateDelta": pytest.approx(-1 / 3),
        "trialPassRateDelta": pytest.approx(-1 / 3),
        "regressed": ["falls"],
        "improved": [],
        "added": ["comes"],
        "removed": ["leaves"],
    }
    third = graded(tmp_path, "three", {"stays": {}, "falls": {}, "comes": {}})
    assert (changed(third, "polite")["improved"], changed(third, "polite")["regressed"]) == (["falls"], [])


def test_a_variant_that_is_new_has_no_change(tmp_path):
    graded(tmp_path, "one", {"a": {}})
    path = write_echo_eval(tmp_path / "eval", cases={"a": {}}, variants=[{"name": "new"}], baseline="new")
    folder = grade_here(collect_run(path, tmp_path / "results"), tmp_path / "two").folder
    assert folder.summary().previous_run.variants == {}


def test_without_results_that_can_be_read_only_rates_are_compared(tmp_path):
    first = graded(tmp_path, "one", {"a": {}})
    (first.path / "results.json").write_text('{"cases":[\n{"id":"a"\n]}\n')
    assert set(changed(graded(tmp_path, "two", {"a": {}}), "polite")) == {"passRateDelta", "trialPassRateDelta"}


def test_a_previous_run_that_cannot_be_read_is_no_obstacle(tmp_path):
    first = graded(tmp_path, "one", {"a": {}})
    later = collect_run(tmp_path / "eval" / "eval.yaml", tmp_path / "results")
    assert previous_run(later, later.run())[0].run_id == first.run_id
    assert grade_here(later, tmp_path / "two").summary.previous_run.run_id == first.run_id
    (first.path / "summary.json").write_text("{")
    assert previous_run(later, later.run()) is None
    assert grade_here(later, tmp_path / "three").summary.previous_run is None


def test_another_grading_of_the_same_trials_is_no_run_before(tmp_path):
    first = graded(tmp_path, "one", {"a": {}})
    assert grade_here(first.source, tmp_path / "again").summary.previous_run is None
