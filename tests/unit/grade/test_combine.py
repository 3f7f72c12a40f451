from __future__ import annotations

import pytest

from mst.grade.combine import case_passed, case_preference, trial_outcome
from mst.model.keys import TrialKey
from mst.model.score import GraderScore, TrialGrading


def grading(**scores: GraderScore) -> TrialGrading:
    key = TrialKey(variant="v", case_id="c", trial=0)
    return TrialGrading(key=key, trial_digest="d", scores=scores, identities=dict.fromkeys(scores, "i"))


PASS = GraderScore(passed=True)
FAIL = GraderScore(passed=False)
SKIPPED = GraderScore(passed=False, skipped=True)
INFORMATIONAL = GraderScore(passed=False, graded=False)
DEFERRED = GraderScore(passed=False, deferred=["query"])
ERROR = GraderScore(passed=False, error="crashed")


@pytest.mark.parametrize(
    ("scores", "passed", "outcome"),
    [
        ({"a": PASS, "b": PASS}, True, "passed"),
        ({"a": PASS, "b": FAIL}, False, "failed"),
        ({"a": PASS, "b": SKIPPED, "c": INFORMATIONAL}, True, "passed"),
        ({"a": SKIPPED}, None, "ungraded"),
        ({}, None, "ungraded"),
        ({"a": INFORMATIONAL}, None, "ungraded"),
        ({"a": FAIL, "b": ERROR}, None, "error"),
        ({"a": DEFERRED}, None, "deferred"),
        ({"a": PASS, "b": DEFERRED}, None, "deferred"),
        ({"a": FAIL, "b": DEFERRED}, False, "failed"),
    ],
)
def test_a_trial_passes_by_the_graders_that_count(scores, passed, outcome):
    graded = grading(**scores)
    assert (graded.passed, trial_outcome(graded)) == (passed, outcome)


@pytest.mark.parametrize(
    ("passes", "scored", "threshold", "passed"),
    [
        (1, 1, 1.0, True),
        (2, 3, 1.0, False),
        (2, 3, 2 / 3, True),
        (3, 10, 0.3, True),
        (7, 25, 0.28, True),  # 0.28 x 25 is a little over 7
        (6, 25, 0.28, False),
        (0, 0, 0.0, None),
        (0, 1, 0.0, True),
    ],
)
def test_a_case_passes_when_the_share_reaches_its_threshold(passes, scored, threshold, passed):
    assert case_passed(passes, scored, threshold) is passed


@pytest.mark.parametrize(
    ("pairs", "preference"),
    [
        ([], "tie"),
        (["candidate"], "candidate"),
        (["candidate", "baseline", "baseline"], "baseline"),
        (["candidate", "tie", "tie"], "candidate"),
        (["candidate", "baseline"], "tie"),
    ],
)
def test_a_case_prefers_by_the_sign_of_its_pairs(pairs, preference):
    assert case_preference(pairs) == preference
