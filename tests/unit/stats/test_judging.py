"""Preferences, agreement and strengths: edges that the reference vectors leave open."""

import math

import pytest

from mst.stats.agreement import cohen_kappa, fleiss_kappa, judge_corrected_rate, krippendorff_alpha, weighted_kappa
from mst.stats.bradley_terry import bradley_terry
from mst.stats.preferences import case_preference, majority, pair_winner, position_bias, stability, win_rate


@pytest.mark.parametrize(
    ("votes", "winner"), [([], None), (["a"], "a"), (["a", "b"], None), (["a", "a", "b"], "a"), (["a", "b", "c"], None)]
)
def test_majority_is_of_all_votes(votes, winner):
    assert majority(votes) == winner


@pytest.mark.parametrize(
    ("outcomes", "preference"), [([], "tie"), ([1], "candidate"), ([1, -1], "tie"), ([-1, -1, 1, 0], "baseline")]
)
def test_case_has_one_vote(outcomes, preference):
    assert case_preference(outcomes) == preference


@pytest.mark.parametrize(
    ("ab", "ba", "winner"),
    [("first", "second", "a"), ("second", "first", "b"), ("first", "first", None), ("tie", "second", None)],
)
def test_win_needs_both_orders(ab, ba, winner):
    assert pair_winner(ab, ba) == winner


def test_win_rate_without_cases_is_undefined():
    found = win_rate(0, 0, 0)

    assert (found.win_rate, found.win_rate_decisive, found.net_preference, found.se) == (None, None, None, None)
    assert found.p_sign == 1.0
    assert found.interval_decisive.reason


def test_position_bias_shows_in_flips():
    found = position_bias([("first", "first")] * 8 + [("first", "second")] * 2)

    assert (found.flips_to_first, found.consistent, found.wins_a, found.ties) == (8, 2, 2, 8)
    assert found.p_flips == 2 / 2**8


def test_stability_leaves_out_pairs_without_answers():
    assert stability([["A", "A"], [], ["A", "B"]]) == stability([["A", "A"], ["A", "B"]])


def test_agreement_by_chance_alone_is_undefined():
    assert cohen_kappa([], []).kappa is None
    assert cohen_kappa(["x"], ["x"]).kappa is None
    assert fleiss_kappa([]) is None
    assert weighted_kappa([1, 1], [1, 1], [1, 2], "quadratic") is None
    assert krippendorff_alpha([[1, 1], [1, 1]], "interval") is None


def test_perfect_agreement_is_one():
    assert cohen_kappa(["x", "y"], ["x", "y"]).kappa == 1
    assert fleiss_kappa([["x", "x"], ["y", "y"]]) == 1
    assert krippendorff_alpha([[1, 2, 3], [1, 2, 3]], "ordinal") == 1
    assert krippendorff_alpha([["x", "y"], ["x", "y"]], "nominal") == 1


def test_ratio_scale_takes_zeros():
    assert krippendorff_alpha([[0, 1, 4], [0, 2, 4]], "ratio") < 1


def test_judge_no_better_than_chance_corrects_nothing():
    found = judge_corrected_rate(0.6, 100, tpr=0.5, n_pos=50, tnr=0.5, n_neg=50)

    assert found.rate is None
    assert "no better than chance" in found.reason


def test_unbounded_and_unidentified_strengths_say_so():
    assert bradley_terry(["A", "B"], {("A", "B"): 5}).reason.startswith("unbounded")
    apart = {("A", "B"): 1, ("B", "A"): 1, ("C", "D"): 1, ("D", "C"): 1}
    assert bradley_terry(["A", "B", "C", "D"], apart).reason.startswith("not identified")


def test_two_systems_have_the_odds_they_show():
    fit = bradley_terry(["A", "B"], {("A", "B"): 30, ("B", "A"): 10})

    assert fit.pairs["A", "B"].difference == pytest.approx(math.log(3))
    assert fit.pairs["A", "B"].p_win == pytest.approx(0.75)


def test_counts_too_far_apart_for_floats_say_so():
    wins = {("A", "B"): 1e300, ("B", "A"): 1e-300, ("B", "C"): 1.0, ("C", "B"): 1.0}

    assert bradley_terry(["A", "B", "C"], wins).reason.startswith("not computable")


def test_lopsided_strengths_still_converge():
    fit = bradley_terry(["A", "B", "C"], {("A", "B"): 1e6, ("B", "A"): 1, ("B", "C"): 1e6, ("C", "B"): 1})

    assert fit.pairs["A", "C"].difference == pytest.approx(2 * math.log(1e6), rel=1e-6)
