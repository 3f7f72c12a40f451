import pytest

from mst.errors import UsageError
from mst.model.results import TrialResult
from mst.runs.compare import compare_runs, counts_of, trial_letter
from mst.testing.stored_run import collect_run, grade_here, write_echo_eval

ROBUST = [f"c{number}" for number in range(8)]


def graded(home, name, cases, *, root=None, **config):
    """A run of an echo eval whose answers are the cases' inputs behind each variant's template, and its grading."""
    path = write_echo_eval(home / name, cases=cases, **config)
    source = collect_run(path, root or home / f"results-{name}")
    return grade_here(source, home / f"scratch-{name}").folder


def templates(**by_variant):
    return [{"name": name, "input_template": f"{words} {{{{input}}}}"} for name, words in by_variant.items()]


@pytest.fixture
def pair(tmp_path):
    """`polite` was never polite in the first run and always in the second; `plain` stays; `extra` and `gone` differ."""
    cases = {name: {} for name in ROBUST}
    first = graded(tmp_path, "a", cases, variants=templates(plain="well", polite="well", gone="x"))
    second = graded(tmp_path, "b", cases, variants=templates(plain="well", polite="please", extra="y"))
    return first, second


def test_each_variant_is_held_against_itself_in_the_first_run(pair):
    found = compare_runs(*pair)
    assert [variant.name for variant in found.variants] == ["plain", "polite"]
    assert (found.variants_first_only, found.variants_second_only) == (["gone"], ["extra"])
    plain, polite = (variant.verdict for variant in found.variants)
    assert (plain.verdict, polite.verdict) == ("cannot tell", "better")
    assert (polite.difference, polite.flips_up) == (1.0, ROBUST)
    assert polite.candidate == f"polite in {pair[1].run_id.split('-')[1]}"
    assert polite.level == pytest.approx(1 - 0.05 / 2)
    assert not found.same_trials
    assert found.cases.matched == 8


def test_the_second_run_can_be_worse(pair):
    found = compare_runs(*reversed(pair))
    assert found.variants[1].verdict.verdict == "worse"
    assert found.variants[1].second.passed == 0


def test_cases_are_matched_by_content_and_the_others_are_listed(tmp_path):
    first = graded(tmp_path, "a", {"same": {}, "changed": {}, "left": {}, "judged": {}})
    cases = {"same": {}, "changed": {"input": "another"}, "came": {}, "judged": {"judge_reps": 2}}
    found = compare_runs(first, graded(tmp_path, "b", cases))
    assert found.cases.matched == 2
    assert found.cases.changed == ["changed"]
    assert (found.cases.first_only, found.cases.second_only) == (["left"], ["came"])
    assert [variant.first.planned for variant in found.variants] == [2, 2]
    assert [variant.verdict.cases_compared for variant in found.variants] == [2, 2]


def test_families_regressions_and_held_out_cases_count_as_in_a_run(tmp_path):
    cases = {
        "a": {"metadata": {"cluster": "one"}},
        "b": {"metadata": {"cluster": "one"}},
        "c": {"tags": ["regression"]},
        "d": {"tags": ["held-out"]},
    }
    first = graded(tmp_path, "a", cases, variants=templates(plain="please", polite="please"))
    second = graded(tmp_path, "b", cases, variants=templates(plain="please", polite="no"))
    verdict = compare_runs(first, second).variants[1].verdict
    assert verdict.enough.units == 2
    assert verdict.regressions == ["c"]
    assert verdict.held_out["flipsDown"] == ["d"]
    assert verdict.flips_down == ["c", "a", "b"]


def test_two_gradings_of_the_same_trials_get_flips_and_no_verdict(tmp_path):
    cases = {"say please": {}, "other": {}}
    path = write_echo_eval(tmp_path / "a", cases=cases)
    source = collect_run(path, tmp_path / "results")
    first = grade_here(source, tmp_path / "s1").folder
    write_echo_eval(tmp_path / "a", cases=cases, assertions=[{"contains_text": "other"}])
    second = grade_here(source, tmp_path / "s2").folder
    found = compare_runs(first, second)
    assert found.same_trials
    plain, polite = found.variants
    assert (plain.verdict, polite.verdict) == (None, None)
    assert (plain.flips.trials, plain.flips.up, plain.flips.down) == (2, 1, 1)
    assert (plain.flips.cases_up, plain.flips.cases_down) == (["other"], ["say please"])
    assert (polite.flips.up, polite.flips.down, polite.flips.cases_down) == (0, 1, ["say please"])


def test_gradings_of_the_same_trials_are_compared_though_the_cases_checks_changed(tmp_path):
    path = write_echo_eval(tmp_path / "a", cases={"x": {"assertions": [{"contains_text": "say"}]}, "y": {}})
    source = collect_run(path, tmp_path / "results")
    first = grade_here(source, tmp_path / "s1").folder
    write_echo_eval(tmp_path / "a", cases={"x": {"assertions": [{"contains_text": "nothing"}]}, "y": {}})
    found = compare_runs(first, grade_here(source, tmp_path / "s2").folder)
    assert found.cases.changed == ["x"]
    assert found.cases.matched == 2
    assert found.variants[1].flips.cases_down == ["x"]


def test_verdicts_inside_the_runs_stand_side_by_side(pair):
    (decision,) = compare_runs(*pair).decisions
    assert (decision.candidate, decision.first, decision.second) == ("polite", "cannot tell", "better")


@pytest.mark.parametrize("wrong", ["same", "collected", "strangers"])
def test_what_cannot_be_compared_is_said_in_one_line(tmp_path, wrong):
    first = graded(tmp_path, "a", {"x": {}})
    others = {
        "same": lambda: first,
        "collected": lambda: collect_run(tmp_path / "a" / "eval.yaml", tmp_path / "more"),
        "strangers": lambda: graded(tmp_path, "b", {"x": {}}, variants=templates(one="a"), baseline="one"),
    }
    says = {"same": "same run twice", "collected": "mst grade", "strangers": "no variant has the same name"}
    with pytest.raises(UsageError, match=says[wrong]) as refused:
        compare_runs(first, others[wrong]())
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize(
    ("trial", "letter"),
    [
        ({"passed": True}, "p"),
        ({"passed": False, "error_kind": "agent", "error": "exit 1"}, "f"),
        ({"is_infrastructure_error": True, "error": "disk"}, "e"),
        ({"is_infrastructure_error": True, "failure_kind": "missing"}, "m"),
        ({"grading_error": "judge.x: 429"}, "e"),
        ({"ungraded": True}, "u"),
    ],
)
def test_a_stored_trial_keeps_its_fate(trial, letter):
    assert trial_letter(TrialResult(trial=0, scores={}, duration_ms=1, **trial)) == letter


def test_ungraded_trials_are_neither_planned_nor_missing():
    counts = counts_of("ppfemu")
    assert (counts.passed, counts.scored, counts.planned, counts.errored, counts.missing) == (2, 3, 5, 1, 1)
