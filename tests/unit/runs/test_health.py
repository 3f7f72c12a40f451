"""Planted bad graders are each named by what a run's own verdicts say."""

from __future__ import annotations

import random

import pytest

from mst.model.case import Case, EvalPlan, Variant
from mst.model.keys import ComparisonKey, TrialKey
from mst.model.score import ComparisonGrading, GraderScore, PairCall, Preference, TrialGrading
from mst.runs.grading import GradedCase, GradedTrial
from mst.runs.health import Health
from mst.testing.judge import make_subject

PLAN = EvalPlan(
    name="e",
    config_id="c",
    content_hash="h",
    baseline="a",
    variants=[Variant(name="a"), Variant(name="b"), Variant(name="oracle", client="oracle")],
)


def graded(number, scores, *, calls=None, subjects=None):
    case = Case(id=f"c{number}", dataset="d")
    trials = [
        GradedTrial(
            key=TrialKey(variant=variant, case_id=case.id, trial=0),
            subject=(subjects or {}).get(variant),
            grading=TrialGrading(
                key=TrialKey(variant=variant, case_id=case.id, trial=0), trial_digest="", scores=found, identities={}
            ),
        )
        for variant, found in scores.items()
    ]
    comparisons = []
    if calls is not None:
        consistent = {call.preference for call in calls}
        preference = Preference(
            judge="pairwise.p", preference=consistent.pop() if len(consistent) == 1 else "tie", pairs=calls
        )
        comparisons = [
            ComparisonGrading(
                key=ComparisonKey(candidate="b", case_id=case.id),
                trial_digests=[],
                preferences={"pairwise.p": preference},
                identities={},
            )
        ]
    return GradedCase(case=case, trials=trials, comparisons=comparisons)


def kinds(cases):
    health = Health(PLAN)
    for case in cases:
        health.add(case)
    return {(found.grader, found.kind) for found in health.findings()}


def score(passed, **more):
    return GraderScore(passed=passed, **more)


def pair(baseline_first, candidate_first):
    return [
        PairCall(order="baseline_first", rep=0, baseline_trial=0, candidate_trial=0, preference=baseline_first),
        PairCall(order="candidate_first", rep=0, baseline_trial=0, candidate_trial=0, preference=candidate_first),
    ]


@pytest.mark.parametrize(("passed", "kind"), [(True, "always_passes"), (False, "never_passes")])
def test_one_that_always_says_the_same(passed, kind):
    assert kinds(graded(n, {"a": {"judge.j": score(passed)}}) for n in range(10)) == {("judge.j", kind)}
    assert kinds(graded(n, {"a": {"judge.j": score(passed)}}) for n in range(9)) == set()


def test_one_that_tells_answers_apart_is_well():
    assert kinds(graded(n, {"a": {"judge.j": score(n % 3 > 0)}}) for n in range(60)) == set()


def test_one_that_often_gives_no_verdict():
    cases = [graded(n, {"a": {"judge.j": score(n % 2 > 0, error="x" if n < 3 else None)}}) for n in range(20)]
    assert kinds(cases) == {("judge.j", "often_errors")}


def test_one_whose_repetitions_spread():
    cases = [graded(n, {"a": {"judge.j": score(n % 2 > 0, scores=[0.0, 1.0], high_variance=n < 5)}}) for n in range(20)]
    assert kinds(cases) == {("judge.j", "unsteady")}


def test_one_that_fails_what_is_known_to_be_right():
    cases = [graded(n, {"a": {"judge.j": score(n % 2 > 0)}, "oracle": {"judge.j": score(n != 4)}}) for n in range(10)]
    assert ("judge.j", "contradicts_oracle") in kinds(cases)


def test_two_that_say_the_opposite():
    cases = [graded(n, {"a": {"judge.j": score(n % 2 > 0), "judge.k": score(n % 2 == 0)}}) for n in range(12)]
    assert kinds(cases) == {("judge.j", "contradict")}


def test_one_that_prefers_the_first_slot():
    cases = [graded(n, {}, calls=pair("baseline", "candidate")) for n in range(10)]
    assert kinds(cases) == {("pairwise.p", "prefers_first")}


def test_one_that_prefers_the_second_slot():
    cases = [graded(n, {}, calls=pair("candidate", "baseline")) for n in range(10)]
    assert kinds(cases) == {("pairwise.p", "prefers_second")}


def test_one_that_flips_at_random():
    dice = random.Random(7)
    sides = ["baseline", "candidate"]
    cases = [graded(n, {}, calls=pair(dice.choice(sides), dice.choice(sides))) for n in range(40)]
    assert kinds(cases) == {("pairwise.p", "inconsistent")}


def test_one_that_prefers_long_answers(tmp_path):
    subjects = {
        "a": make_subject(tmp_path, text="x" * 100, variant="a"),
        "b": make_subject(tmp_path, text="x" * 200, variant="b"),
    }
    empty = {"a": {}, "b": {}}
    cases = [graded(n, empty, calls=pair("candidate", "candidate"), subjects=subjects) for n in range(12)]
    assert kinds(cases) == {("pairwise.p", "prefers_longer")}


def test_a_steady_pairwise_judge_is_well(tmp_path):
    subjects = {
        "a": make_subject(tmp_path, text="x" * 100, variant="a"),
        "b": make_subject(tmp_path, text="x" * 200, variant="b"),
    }
    sides = ["baseline", "candidate"]
    cases = [
        graded(n, {"a": {}, "b": {}}, calls=pair(sides[n % 2], sides[n % 2]), subjects=subjects) for n in range(40)
    ]
    assert kinds(cases) == set()


def test_memory_depends_on_the_graders_alone():
    health = Health(PLAN)
    for number in range(500):
        health.add(graded(number, {"a": {"judge.j": score(True)}}, calls=pair("tie", "tie")))
    assert len(health._pairwise["pairwise.p"].records) == 1
    assert len(health._graders) == 1
