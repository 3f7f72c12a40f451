from __future__ import annotations

import asyncio

import pytest

from mst.grade.contract import Grader
from mst.grade.recorded import Recorded
from mst.model.case import GraderSpec
from mst.model.keys import ComparisonKey, TrialKey
from mst.model.score import ComparisonGrading, GraderScore, Preference, TrialGrading
from mst.testing.judge import make_subject

GRADER = Grader(name="judge.j", role="judge", spec=GraderSpec(type="command", options={"argv": ["x"]}))
PASSED = GraderScore(passed=True, score=1.0)


def recorded(unit) -> Recorded:
    return Recorded(units=lambda _: unit, missing_reason=lambda key: f"grade shard 2 ended before {key} was graded")


def trial_of(unit, subject) -> TrialGrading:
    key = TrialKey(variant="a", case_id="case-1", trial=0)
    return asyncio.run(recorded(unit).trial(key, subject, [GRADER]))


def unit_for(subject, **changes) -> TrialGrading:
    key = TrialKey(variant="a", case_id="case-1", trial=0)
    values = {
        "key": key,
        "trial_digest": subject.digest,
        "scores": {"judge.j": PASSED},
        "identities": {"judge.j": GRADER.identity},
    }
    return TrialGrading(**{**values, **changes})


def test_a_recorded_score_is_returned_as_it_is(tmp_path):
    subject = make_subject(tmp_path)
    unit = unit_for(subject)
    assert trial_of(unit, subject) == unit


def test_errors_are_verdicts_of_the_worker_too(tmp_path):
    subject = make_subject(tmp_path)
    unit = unit_for(subject, scores={"judge.j": GraderScore(passed=False, error="quota")})
    assert trial_of(unit, subject).errors == {"judge.j": "quota"}


def test_what_is_missing_names_its_shard(tmp_path):
    errors = trial_of(None, make_subject(tmp_path)).errors
    assert errors == {"judge.j": "Missing: grade shard 2 ended before a/case-1/0 was graded"}


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"trial_digest": "other"}, "another version of this trial"),
        ({"identities": {"judge.j": "other"}}, "another version of this grader"),
        ({"scores": {}}, "lacks this grader"),
        ({"key": TrialKey(variant="a", case_id="case-2", trial=0)}, "grade shard 2"),
    ],
)
def test_a_verdict_for_something_else_does_not_count(tmp_path, changes, reason):
    subject = make_subject(tmp_path)
    grading = trial_of(unit_for(subject, **changes), subject)
    assert reason in grading.errors["judge.j"]
    assert grading.trial_digest == subject.digest
    assert grading.identities == {"judge.j": GRADER.identity}


JUDGE = Grader(name="pairwise.j", role="pairwise", spec=GraderSpec(type="smaller_diff"))
KEY = ComparisonKey(candidate="b", case_id="case-1")


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({}, None),
        ({"trial_digests": ["other"]}, "other versions of these trials"),
        ({"identities": {"pairwise.j": "other"}}, "another version of this judge"),
        ({"preferences": {}}, "lacks this judge"),
        ({"key": ComparisonKey(candidate="c", case_id="case-1")}, "grade shard 2"),
        (
            {"preferences": {"pairwise.j": Preference(judge="pairwise.j", preference="tie", sides_passed={})}},
            "has changed",
        ),
    ],
)
def test_a_preference_counts_only_for_the_same_trials_and_judge(tmp_path, pair_of, changes, reason):
    pair = pair_of([make_subject(tmp_path, variant="a")], [make_subject(tmp_path, variant="b")])
    sides = {"baseline.0": None, "candidate.0": None}
    preference = Preference(judge="pairwise.j", preference="candidate", sides_passed=sides)
    values = {
        "key": KEY,
        "trial_digests": [pair.baseline_trials[0].digest, pair.candidate_trials[0].digest],
        "preferences": {"pairwise.j": preference},
        "identities": {"pairwise.j": JUDGE.identity},
    }
    unit = ComparisonGrading(**{**values, **changes})
    found = asyncio.run(recorded(unit).comparison(KEY, pair, [JUDGE]))
    if reason is None:
        assert found == unit
    else:
        assert reason in found.errors["pairwise.j"]
