from mst.model.results import TrialResult
from mst.report import failures
from mst.report.failures import Failures, Reason, reasons
from mst.report.view import trial_results


def collected(made):
    found = Failures()
    for case in made.folder.case_results():
        for trial in trial_results(case):
            found.add(case, trial)
    return found


def test_failures_are_grouped_by_the_check_that_failed_largest_first(four):
    groups = collected(four).groups("failed")
    assert [group.title for group in groups] == ["checks: clean", "checks: behaviour", "limit reached: timeout"]
    assert [group.total for group in groups] == sorted((group.total for group in groups), reverse=True)
    assert len(groups[0].excerpts) == failures.MAX_EXCERPTS


def test_how_the_program_ended_comes_before_who_saw_only_its_answer(four, monkeypatch):
    both = [Reason("assertion", "no x", who="contains_text"), Reason("program", "exit code 1")]
    monkeypatch.setattr(failures, "reasons", lambda trial: both)
    assert [group.title for group in collected(four).groups("failed")] == [
        "the program ended with an error",
        "contains_text",
    ]


def test_what_never_got_a_verdict_stands_apart(four):
    apart = {group.title: group.total for group in collected(four).groups("apart")}
    assert apart == {
        "ungraded: no grader that counts looked at it": 4,
        "grading error: judge.tone": 1,
        "infrastructure failure (environment)": 1,
        "missing: nothing came back": 1,
    }


def test_groups_are_bounded_and_the_rest_is_counted_together(four, monkeypatch):
    whole = collected(four)
    trials = sum(group.total for kind in ("failed", "apart") for group in whole.groups(kind))
    monkeypatch.setattr(failures, "MAX_GROUPS", 1)
    found = [group for kind in ("failed", "apart") for group in collected(four).groups(kind)]
    assert sorted({group.title for group in found})[1:] == ["other reasons"]
    assert sum(group.total for group in found) == trials


def test_a_trial_that_left_nothing_to_score_is_no_infrastructure_failure():
    trial = TrialResult(trial=0, passed=None, scores={}, duration_ms=0, error="no solution/ and no expected.answer")
    assert [(reason.title, reason.text) for reason in reasons(trial)] == [
        ("incomplete: there is nothing to score", "no solution/ and no expected.answer")
    ]
