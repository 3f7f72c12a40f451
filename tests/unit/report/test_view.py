import pytest

from mst.report.view import outcome, trial_results


def results(made):
    return {
        (case.variant, number // len(made.summary.variants)): case
        for number, case in enumerate(made.folder.case_results())
    }


@pytest.mark.parametrize(
    ("variant", "number", "word"),
    [
        ("ruff", 9, "missing"),
        ("ruff", 11, "infrastructure"),
        ("pyupgrade", 7, "grading error"),
        ("ruff", 13, "ungraded"),
        ("autoflake", 0, "passed"),
        ("autoflake", 1, "failed"),
    ],
)
def test_each_fate_of_a_trial_has_its_word(four, variant, number, word):
    trials = trial_results(results(four)[variant, number])
    assert [outcome(trial) for trial in trials] == [word]


def test_a_trial_that_is_not_listed_is_missing(repeated):
    case = next(iter(repeated.folder.case_results()))
    cut = case.model_copy(update={"trial_results": case.trial_results[:1]})
    assert [outcome(trial) for trial in trial_results(cut)][1:] == ["missing", "missing"]


def test_a_case_without_a_list_is_its_own_only_trial(alone):
    case = next(iter(alone.folder.case_results()))
    bare = case.model_copy(update={"trial_results": None})
    assert [(trial.trial, outcome(trial)) for trial in trial_results(bare)] == [(0, "passed")]
