from __future__ import annotations

import math

import pytest

from mst.errors import GraderError
from mst.grade.judging import check_finding, judged
from mst.judges.contract import Finding
from mst.model.case import GraderSpec
from mst.model.score import SubScore
from mst.model.transcript import Usage
from mst.providers.spending import total_usage

SPEC = GraderSpec(type="command", name="style", threshold=0.7)


def scores(*values: float) -> list[Finding]:
    return [Finding(score=value) for value in values]


def test_one_score_is_compared_with_the_threshold():
    assert judged(scores(0.7), SPEC).passed
    found = judged(scores(0.69), SPEC)
    assert (found.passed, found.score, found.judge_name) == (False, 0.69, "style")
    assert found.scores is None


def test_the_mean_of_repetitions_is_compared():
    found = judged(scores(0.5, 0.9), SPEC)
    assert found.passed
    assert found.scores == [0.5, 0.9]
    assert found.score_std_dev == pytest.approx(0.2)
    assert found.high_variance is False
    assert judged(scores(0.1, 0.9), SPEC).high_variance is True


def test_rounding_of_a_mean_does_not_fail_it():
    assert judged(scores(0.7, 0.7, 0.7), SPEC).passed


@pytest.mark.parametrize(
    ("own", "passed"), [([True], True), ([False], False), ([True, False], False), ([True, True, False], True)]
)
def test_the_judges_own_pass_decides_by_majority_and_a_tie_fails(own, passed):
    findings = [Finding(score=0.1 if each else 1.0, passed=each) for each in own]
    assert judged(findings, SPEC).passed is passed


def test_a_repetition_without_its_own_pass_counts_by_the_threshold():
    findings = [Finding(score=0.1, passed=True), Finding(score=0.9), Finding(score=0.1)]
    assert judged(findings, SPEC).passed


def test_skipped_repetitions_are_left_out():
    found = judged([Finding(skipped=True), Finding(score=1.0)], SPEC)
    assert (found.passed, found.score, found.skipped) == (True, 1.0, None)
    all_skipped = judged([Finding(skipped=True, reasoning="nothing to judge")], SPEC)
    assert (all_skipped.skipped, all_skipped.details) == (True, "nothing to judge")
    assert not all_skipped.counts


def test_every_repetition_is_kept():
    findings = [Finding(score=1.0, reasoning="r", sub_scores={"a": SubScore(score=1)}, usage=Usage(turns=1))] * 2
    found = judged(findings, SPEC)
    assert (
        found.judge_results
        == [{"score": 1.0, "reasoning": "r", "subScores": {"a": {"score": 1.0}}, "usage": {"turns": 1}}] * 2
    )
    assert found.usage == Usage(turns=2)


def test_what_one_does_not_know_is_not_known_of_the_sum():
    assert total_usage([Usage(turns=1, input_tokens=2), Usage(turns=2)]) == Usage(turns=3)
    assert total_usage([Usage(turns=1), None]) is None
    assert total_usage([]) is None


@pytest.mark.parametrize("score", [None, math.nan, math.inf, 1.01, -0.01, True, "1"])
def test_a_finding_without_a_score_in_range_is_refused(score):
    with pytest.raises(GraderError):
        check_finding(Finding(score=score))
    assert check_finding(Finding(score=score, skipped=True)).skipped
