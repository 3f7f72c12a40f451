"""One broken case: Fisher's test, Holm over tagged cases, trials needed."""

import pytest
from scipy import stats

from mst.stats.cases import CaseData, TrialCounts
from mst.stats.regression import check_regressions, fisher_lower, trials_needed


def counts(passed, scored):
    return TrialCounts(passed, scored, scored)


def tagged(name, before, after, *, regression=True):
    return CaseData(name, counts(*before), counts(*after), regression=regression)


@pytest.mark.parametrize(
    ("passed", "n", "passed_before", "n_before"), [(0, 5, 5, 5), (3, 4, 1, 6), (2, 9, 8, 9), (0, 3, 0, 3), (7, 7, 2, 3)]
)
def test_fisher_equals_the_reference(passed, n, passed_before, n_before):
    table = [[passed, n - passed], [passed_before, n_before - passed_before]]
    expected = stats.fisher_exact(table, alternative="less").pvalue

    assert fisher_lower(passed, n, passed_before, n_before) == pytest.approx(expected, rel=1e-10)


@pytest.mark.parametrize(("cases", "needed"), [(1, 4), (3, 4), (4, 5), (10, 5), (12, 5), (13, 6)])
def test_trials_needed_is_the_first_that_reaches_the_level(cases, needed):
    assert trials_needed(cases) == needed
    assert fisher_lower(0, needed, needed, needed) * cases < 0.05
    assert fisher_lower(0, needed - 1, needed - 1, needed - 1) * cases >= 0.05


def test_a_clear_fall_is_broken_and_stands_first():
    checks = check_regressions([tagged("fine", (5, 5), (5, 5)), tagged("gone", (5, 5), (0, 5))])

    assert [check.case_id for check in checks] == ["gone", "fine"]
    assert (checks[0].broken, checks[0].flipped, checks[0].trials_needed) == (True, True, None)
    assert (checks[1].broken, checks[1].flipped) == (False, False)


def test_one_trial_is_a_flip_that_needs_more():
    (check,) = check_regressions([tagged("gone", (1, 1), (0, 1))])

    assert (check.broken, check.flipped, check.trials_needed) == (False, True, 4)


def test_only_tagged_cases_with_both_sides_enter():
    cases = [
        tagged("plain", (5, 5), (0, 5), regression=False),
        CaseData("unscored", counts(5, 5), TrialCounts(0, 0, 5), regression=True),
    ]
    assert check_regressions(cases) == ()
