import io

import pytest
from rich.console import Console

from mst.errors import UsageError
from mst.model.comparison import MatchedCases
from mst.report.changes import changes
from mst.report.compared import MAX_CHANGES, NOTHING_CHANGED, compared, comparison_document, render_comparison
from mst.report.gates import GateOutcome, gate_comparison
from mst.testing.stored_run import collect_run, grade_here, write_echo_eval

CASES = {f"c{number}": {"tags": ["regression"]} if number == 0 else {} for number in range(8)}


def graded(home, name, *, cases=None, **config):
    source = collect_run(write_echo_eval(home / name, cases=cases or CASES, **config), home / f"results-{name}")
    return grade_here(source, home / f"scratch-{name}").folder


def variants(polite):
    return [{"name": "plain", "input_template": "{{input}}"}, {"name": "polite", "input_template": polite}]


@pytest.fixture(scope="module")
def fell(tmp_path_factory):
    """`polite` passed everything in the first run and nothing in the second, whose judge and cases are others too."""
    home = tmp_path_factory.mktemp("fell")
    first = graded(home, "a", variants=variants("please {{input}}"))
    cases = {**CASES, "c7": {"input": "changed"}, "new": {}}
    asked = {"assertions": [{"contains_text": "please"}, {"contains_text": "no", "name": "same"}]}
    second = graded(home, "b", cases=cases, variants=variants("no {{input}}"), trials=2, pass_threshold=0.5, **asked)
    return compared(first, second)


@pytest.fixture(scope="module")
def regraded(tmp_path_factory):
    home = tmp_path_factory.mktemp("regraded")
    source = collect_run(write_echo_eval(home / "a", cases=CASES), home / "results")
    first = grade_here(source, home / "s1").folder
    write_echo_eval(home / "a", cases=CASES, assertions=[{"contains_text": "say"}])
    return compared(first, grade_here(source, home / "s2").folder)


def rendered(found, *, width=80):
    stream = io.StringIO()
    render_comparison(found, Console(file=stream, width=width))
    return stream.getvalue()


def flat(text):
    return " ".join(text.split())


def test_what_changed_is_said_setting_by_setting(fell):
    text = flat(rendered(fell, width=200))
    assert "variant polite input_template: please {{input}} -> no {{input}}" in text
    assert "setting trials: 1 -> 2" in text
    assert "setting pass_threshold: 1.0 -> 0.5" in text
    assert "grader same (config assertion):" in text
    assert "dataset cases: 8 cases (" in text
    assert "case c7 (input, expectations, checks or assertions)" in text


def test_what_has_no_counterpart_is_listed(fell):
    text = flat(rendered(fell))
    assert "7 cases compared" in text
    assert "not compared, content changed: 1 case (c7)" in text
    assert "only in the second: 1 case (new)" in text


def test_the_verdict_is_a_sentence_about_both_runs(fell):
    second = fell.second.run_id.split("-")[1]
    text = flat(rendered(fell))
    assert f"polite in {second} is worse than polite in {fell.first.run_id.split('-')[1]}: -100.0 points" in text
    assert "regressions: c0" in text
    assert "verdicts inside each of the two polite against plain: better -> cannot tell" in text


def test_two_gradings_get_flips_a_warning_and_no_verdict(regraded):
    text = flat(rendered(regraded))
    assert "two gradings of the same trials" in text
    assert "plain: of 8 trials 8 now pass" in text
    assert "polite: of 8 trials all came out the same" in text
    assert "is better than" not in text
    assert f"mst show {regraded.first.graded_from.split('-')[1]} --grade-sets" in text
    assert "grader contains_text (config assertion): options" in text


def test_when_nothing_changed_it_says_what_that_leaves(tmp_path):
    first = graded(tmp_path, "a")
    found = compared(first, graded(tmp_path, "b"))
    assert found.changes == []
    text = flat(rendered(found, width=300))
    assert NOTHING_CHANGED in text
    assert "polite: all of 8 compared cases came out the same, so cannot tell" in text


def with_option(run, value, *, key):
    options = {**run.variants[0].client_options, "header": value}
    variants = [run.variants[0].model_copy(update={"client_options": options}), *run.variants[1:]]
    return run.model_copy(update={"variants": variants, "hmac_key": key})


@pytest.mark.parametrize(
    ("before", "after", "same_key", "told"),
    [
        ("Bearer hmac:" + "a" * 16, "Bearer hmac:" + "b" * 16, False, False),
        ("Bearer hmac:" + "a" * 16, "Bearer hmac:" + "b" * 16, True, True),
        ("Bearer hmac:" + "a" * 16, "Token hmac:" + "b" * 16, False, True),
        ("Bearer hmac:" + "a" * 16, "none", False, True),
    ],
)
def test_hashes_of_credentials_are_a_change_only_under_one_key(four, before, after, same_key, told):
    first = with_option(four.run, before, key="1" * 32)
    second = with_option(four.run, after, key="1" * 32 if same_key else "2" * 32)
    found = changes(first, second, MatchedCases(matched=1))
    assert [change.what for change in found] == (["client_options.header"] if told else [])


@pytest.mark.parametrize("width", [80, 120])
def test_no_line_is_wider_than_the_console(fell, regraded, width):
    for found in (fell, regraded):
        assert max(map(len, rendered(found, width=width).splitlines())) <= width


def test_long_lists_of_changes_are_cut(fell):
    (one, *_) = (change for change in fell.changes if change.kind == "setting")
    many = fell.model_copy(update={"changes": [one] * (MAX_CHANGES + 7)})
    assert "and 7 more (--json lists all)" in flat(rendered(many))


def test_what_changed_alike_in_several_variants_is_told_once(fell):
    (one, *_) = (change for change in fell.changes if change.kind == "variant")
    alike = fell.model_copy(update={"changes": [one, one.model_copy(update={"name": "plain"})]})
    assert flat(rendered(alike, width=200)).count("variant polite, plain input_template: ") == 1


def test_the_document_has_changes_cases_variants_and_gate(fell):
    document = comparison_document(fell, GateOutcome(conditions=("never",), failed=False, reasons=())).to_print()
    assert (document["kind"], document["sameTrials"]) == ("comparison", False)
    assert document["cases"]["changed"] == ["c7"]
    assert document["variants"][1]["verdict"]["verdict"] == "worse"
    assert document["gate"]["failed"] is False
    assert {change["kind"] for change in document["changes"]} >= {"variant", "setting", "grader", "dataset", "case"}


@pytest.mark.parametrize(
    ("conditions", "reasons"),
    [
        ((), 0),
        (("never",), 0),
        (("worse",), 1),
        (("cannot-tell",), 1),
        (("not-better",), 2),
        (("worse", "not-better"), 3),
    ],
)
def test_the_gate_asks_about_the_second_run(fell, conditions, reasons):
    outcome = gate_comparison(fell, conditions)
    assert len(outcome.reasons) == reasons
    assert outcome.failed is bool(reasons)


def test_a_regression_fails_the_gate_at_one_trial_and_needs_evidence_at_several(fell, tmp_path):
    assert gate_comparison(fell, ("regression",)).failed is False
    first = graded(tmp_path, "a", variants=variants("please {{input}}"))
    second = graded(tmp_path, "b", variants=variants("no {{input}}"))
    (reason,) = gate_comparison(compared(first, second), ("regression",)).reasons
    assert "breaks 1 regression case (c0)" in reason


def test_conditions_that_make_no_sense_are_refused(fell, regraded):
    with pytest.raises(UsageError, match="one run"):
        gate_comparison(fell, ("any-failure",))
    with pytest.raises(UsageError, match="no verdict"):
        gate_comparison(regraded, ("worse",))
    assert not gate_comparison(regraded, ()).failed
