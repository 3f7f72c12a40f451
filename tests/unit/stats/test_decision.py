"""The verdict rule, clause by clause."""

import pytest

from mst.errors import InvariantError
from mst.stats.cases import CandidateData, CaseData, TrialCounts
from mst.stats.decision import decide, decisive_needed

LOST = TrialCounts(0, 0, 1)
ERRORED = TrialCounts(0, 0, 1, errored=1)


def once(passed):
    return TrialCounts(int(passed), 1, 1)


def case(index, before, after, **more):
    return CaseData(f"c{index}", before, after, **more)


def candidate(up=0, down=0, same=0, name="x", extra=(), **more):
    pairs = [(0, 1)] * up + [(1, 0)] * down + [(1, 1)] * same
    cases = [case(index, once(before), once(after)) for index, (before, after) in enumerate(pairs)]
    return CandidateData(name, [*cases, *extra], **more)


def only(verdicts):
    (verdict,) = verdicts
    return verdict


@pytest.mark.parametrize(
    ("up", "down", "word"),
    [
        (6, 0, "better"),
        (5, 0, "cannot tell"),
        (0, 6, "worse"),
        (8, 1, "better"),
        (7, 1, "no difference shown"),
        (1, 8, "worse"),
        (10, 10, "no difference shown"),
        (0, 0, "cannot tell"),
    ],
)
def test_word_for_one_candidate(up, down, word):
    assert only(decide([candidate(up, down, same=10)])).word == word


def test_better_is_corrected_for_the_number_of_candidates_and_worse_is_not():
    six_up, six_down = candidate(6, name="up"), candidate(0, 6, name="down")

    up, down = decide([six_up, six_down])

    assert only(decide([six_up])).word == "better"
    assert (up.word, up.reason_code) == ("cannot tell", "too_few")
    assert up.p_better_holm == 2 * 2**-6
    assert down.word == "worse"


def test_holm_steps_down():
    """The weaker of two needs 2.5% only, once the stronger is better."""
    weaker, stronger = decide([candidate(6, same=20), candidate(12, same=20, name="y")])

    assert stronger.word == "better"
    assert weaker.p_better_holm == 2**-6
    assert weaker.word == "better"


@pytest.mark.parametrize(("candidates", "needed"), [(1, 6), (2, 7), (3, 7), (4, 8), (40, 11)])
def test_decisive_units_needed(candidates, needed):
    assert decisive_needed(candidates) == needed
    assert 2.0**-needed < 0.025 / candidates <= 2.0 ** (1 - needed)


def test_too_few_says_how_many_are_needed():
    assert str(only(decide([candidate(1, same=9)]))) == "cannot tell (1 case differs, at least 6 must)"
    assert only(decide([candidate(2, 1)])).reason == "3 cases differ, at least 6 must"


def test_nothing_compared_is_cannot_tell():
    verdict = only(decide([CandidateData("x", [case(0, once(1), LOST)])]))

    assert str(verdict) == "cannot tell (no case has a scored trial on both sides)"
    assert (verdict.comparison.unmatched, verdict.comparison.difference) == (1, None)
    assert verdict.comparison.p_better == 1.0


def test_no_candidate_gives_no_verdict():
    assert decide([]) == []


def test_level_of_the_interval_follows_the_number_of_candidates():
    levels = [verdict.comparison.interval.level for verdict in decide([candidate(8, 1, name=name) for name in "abcd"])]
    assert levels == [pytest.approx(1 - 0.05 / 4)] * 4


def test_missing_trials_that_could_turn_the_verdict_make_it_cannot_tell():
    lost = [case(100 + index, once(1), ERRORED if index else LOST) for index in range(3)]

    verdict = only(decide([candidate(7, same=20, extra=lost)]))

    assert only(decide([candidate(7, same=20)])).word == "better"
    assert str(verdict) == "cannot tell (2 errored, 1 missing)"
    assert verdict.reason_code == "missing_data"


def test_missing_trials_that_change_nothing_are_only_counted():
    lost = [case(100 + index, once(1), LOST) for index in range(3)]

    verdict = only(decide([candidate(20, same=20, extra=lost)]))

    assert verdict.word == "better"
    assert verdict.comparison.candidate.missing == 3


def test_up_to_five_percent_missing_is_not_looked_into():
    lost = [case(100, once(1), LOST)]

    assert only(decide([candidate(6, same=13, extra=lost)])).word == "better"
    assert only(decide([candidate(6, same=12, extra=lost)])).word == "cannot tell"


def test_missing_baseline_trials_count_too():
    lost = [case(100 + index, LOST, once(1)) for index in range(6)]

    verdict = only(decide([candidate(8, 4, same=20, extra=lost)]))

    assert only(decide([candidate(8, 4, same=20)])).word == "no difference shown"
    assert verdict.reason == "0 errored, 6 missing"


def test_missing_trials_inside_a_case_are_filled_in():
    """Two of three trials lost in each case: they could have gone the other way."""
    sure = [case(index, TrialCounts(0, 3, 3), TrialCounts(1, 1, 3)) for index in range(8)]
    unsure = [case(50 + index, TrialCounts(2, 3, 3), TrialCounts(1, 1, 3)) for index in range(8)]

    assert only(decide([CandidateData("x", sure)])).word == "better"
    assert only(decide([CandidateData("x", [*sure, *unsure])])).reason_code == "missing_data"


@pytest.mark.parametrize(("up", "down"), [(20, 0), (0, 20), (5, 5), (1, 0)])
def test_unused_treatment_is_cannot_tell_whatever_the_numbers_say(up, down):
    verdict = only(decide([candidate(up, down, treatment_unused="skill 'lint' was never read")]))

    assert str(verdict) == "cannot tell (treatment never took effect: skill 'lint' was never read)"


def test_held_out_cases_are_reported_apart():
    kept_out = [case(100 + index, once(1), once(0), held_out=True) for index in range(9)]

    verdict = only(decide([candidate(7, same=3, extra=kept_out)]))

    assert verdict.word == "better"
    assert verdict.comparison.n_cases == 10
    assert verdict.held_out.n_cases == verdict.held_out.units_down == 9
    assert only(decide([candidate(7)])).held_out is None


def test_flips_name_cases_with_regressions_first():
    extra = [case(50, once(1), once(0)), case(51, once(1), once(0), regression=True)]

    comparison = only(decide([candidate(2, extra=extra)])).comparison

    assert comparison.cases_up == ("c0", "c1")
    assert comparison.cases_down == ("c51", "c50")


def test_a_family_is_one_unit():
    cases = [case(index, once(0), once(1), family=f"f{index // 4}") for index in range(20)]

    verdict = only(decide([CandidateData("x", cases)]))

    assert verdict.comparison.p_better == 2**-5
    assert (verdict.comparison.n_cases, verdict.comparison.n_units) == (20, 5)
    assert verdict.reason == "5 cases or families differ, at least 6 must"
    assert verdict.comparison.test == "exact paired sign-flip test, one-sided, families flipped as one"


def test_families_whose_members_cancel_are_not_decisive():
    cases = [case(0, once(0), once(1), family="f"), case(1, once(1), once(0), family="f")]

    comparison = only(decide([CandidateData("x", cases)])).comparison

    assert comparison.decisive_units == 0
    assert (comparison.cases_up, comparison.cases_down) == (("c0",), ("c1",))


def test_test_is_named_mcnemar_at_one_trial():
    assert only(decide([candidate(6)])).comparison.test == "exact McNemar test, one-sided"


def test_unequal_trial_counts_are_approximate():
    cases = [case(index, TrialCounts(1, 3, 3), TrialCounts(1, 2, 2)) for index in range(9)]

    comparison = only(decide([CandidateData("x", cases)])).comparison

    assert comparison.approximate
    assert comparison.test == "exact paired sign-flip test, one-sided; trials exchanged within cases, larger p"
    assert comparison.difference == pytest.approx(1 / 6)


def test_a_lone_trial_that_passes_where_five_mostly_do_is_not_better():
    """Every case goes up a little, which flips would call better; chance alone does this every few runs."""
    cases = [case(index, TrialCounts(4, 5, 5), TrialCounts(1, 1, 1)) for index in range(8)]
    cases += [case(8 + index, TrialCounts(5, 5, 5), TrialCounts(1, 1, 1)) for index in range(22)]

    verdict = only(decide([CandidateData("x", cases)]))

    assert (verdict.word, verdict.reason_code) == ("cannot tell", "too_few")
    assert verdict.comparison.p_better == pytest.approx((5 / 6) ** 8)
    assert verdict.reason.startswith("with unequal numbers of trials a side these cases cannot reach the level")


def test_a_real_gain_is_still_found_with_unequal_trials():
    cases = [case(index, TrialCounts(1, 5, 5), TrialCounts(2, 2, 2)) for index in range(12)]

    assert only(decide([CandidateData("x", cases)])).word == "better"


def test_repeats_that_always_agree_stand_on_one_trial():
    cases = [case(index, TrialCounts(0, 3, 3), TrialCounts(2, 2, 2)) for index in range(9)]

    comparison = only(decide([CandidateData("x", cases)])).comparison

    assert comparison.one_trial
    assert not comparison.approximate
    assert comparison.test == "exact McNemar test, one-sided"


def test_equal_differences_leave_no_interval_but_a_reason():
    interval = only(decide([candidate(9)])).comparison.interval

    assert interval.low is None
    assert "same value" in interval.reason


@pytest.mark.parametrize("counts", [(2, 1, 3), (0, 2, 1), (-1, 1, 1), (0, 1, 1, 1), (0, 0, 1, -1)])
def test_impossible_counts_are_refused(counts):
    with pytest.raises(InvariantError):
        TrialCounts(*counts)
