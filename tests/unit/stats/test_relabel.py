"""Exchanging trials within cases, against all ways written out."""

import itertools
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mst.stats import relabel as module
from mst.stats.relabel import Labelled, relabel


def written_out(cases):
    """P values from every way to say which of a case's trials are the candidate's."""
    scale = math.lcm(*(count for case in cases for count in (case.candidate_scored, case.baseline_scored)))

    def sums(case):
        trials = [1] * (case.candidate_passed + case.baseline_passed)
        trials += [0] * (case.candidate_scored + case.baseline_scored - len(trials))
        for chosen in itertools.combinations(range(len(trials)), case.candidate_scored):
            taken = sum(trials[place] for place in chosen)
            left = sum(trials) - taken
            yield taken * (scale // case.candidate_scored) - left * (scale // case.baseline_scored)

    seen = sum(
        case.candidate_passed * (scale // case.candidate_scored)
        - case.baseline_passed * (scale // case.baseline_scored)
        for case in cases
    )
    totals = [sum(ways) for ways in itertools.product(*map(sums, cases))]
    most = max(totals)
    return tuple(
        sum(map(test, totals)) / len(totals)
        for test in (lambda total: total >= seen, lambda total: total <= seen, lambda total: total == most)
    )


@st.composite
def a_case(draw):
    candidate, baseline = draw(st.integers(1, 3)), draw(st.integers(1, 4))
    return Labelled(draw(st.integers(0, candidate)), candidate, draw(st.integers(0, baseline)), baseline)


@given(st.lists(a_case(), min_size=1, max_size=3))
def test_it_is_what_all_ways_say(cases):
    assert tuple(relabel(cases)) == pytest.approx(written_out(cases), abs=1e-12)


def test_one_trial_a_side_is_the_sign_flip_test():
    cases = [Labelled(1, 1, 0, 1)] * 7 + [Labelled(0, 1, 1, 1)] + [Labelled(1, 1, 1, 1)] * 5
    assert relabel(cases).p_better == pytest.approx(9 / 256)


def test_past_the_limit_the_normal_distribution_stands_in(monkeypatch):
    cases = [Labelled(2, 2, 3, 5)] * 60 + [Labelled(0, 2, 3, 5)] * 40
    exact = relabel(cases)
    monkeypatch.setattr(module, "EXACT_SUMS", 10)
    assert relabel(cases).p_better == pytest.approx(exact.p_better, abs=0.05)


def test_a_case_in_which_nothing_can_change_does_not_matter():
    cases = [Labelled(2, 2, 1, 5), Labelled(1, 2, 5, 5)]
    assert relabel([*cases, Labelled(2, 2, 5, 5), Labelled(0, 2, 0, 5)]) == pytest.approx(relabel(cases))
    assert relabel([Labelled(2, 2, 5, 5)]) == (1.0, 1.0, 1.0)


def test_hundreds_of_trials_a_case_are_no_more_than_a_large_number():
    # The chance that the candidate has every passed trial is under 1e-308, and no float.
    cases = [Labelled(500, 997, 480, 991)] * 3
    found = relabel(cases)
    difference = 500 / 997 - 480 / 991
    pooled = 980 / 1988
    z = 3 * difference / math.sqrt(3 * pooled * (1 - pooled) * (1 / 997 + 1 / 991))
    assert found.p_better == pytest.approx(math.erfc(z / math.sqrt(2)) / 2, abs=0.01)
    assert found.least_better < 1e-300


@given(st.integers(1, 40), st.integers(1, 40), st.data())
def test_ways_are_counted_whole(candidate, baseline, data):
    kind = module._Kind(candidate, baseline, data.draw(st.integers(0, candidate + baseline)))
    taken = range(kind.least, min(candidate, kind.passed) + 1)
    assert kind.ways() == [math.comb(candidate, each) * math.comb(baseline, kind.passed - each) for each in taken]
    assert sum(kind.ways()) == math.comb(candidate + baseline, kind.passed)
