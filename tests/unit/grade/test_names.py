from __future__ import annotations

from mst.grade.names import graders_for, merged, merged_judges, pairwise_for
from mst.model.base import FileRef
from mst.model.case import Case, EvalPlan, GraderSpec, Variant


def assertion(type_: str, **fields) -> GraderSpec:
    return GraderSpec(type=type_, **fields)


def judge(name: str | None, type_: str = "command", **fields) -> GraderSpec:
    return GraderSpec(type=type_, name=name, **fields)


def plan(**fields) -> EvalPlan:
    return EvalPlan(name="e", config_id="c", content_hash="h", variants=[Variant(name="v")], baseline="v", **fields)


def case(**fields) -> Case:
    return Case(id="c", dataset="d", **fields)


CHECKS = FileRef(path="checks.py", sha256="a" * 64, size=1)


def test_graders_come_in_a_fixed_order_with_unique_names():
    graders = graders_for(
        plan(assertions=[assertion("contains_text"), assertion("equals", name="exact")]),
        Variant(name="v", judges=[judge("style")]),
        case(assertions=[assertion("contains_text"), assertion("is_error")], checks=CHECKS, judges=[judge(None)]),
    )
    assert [(grader.name, grader.role) for grader in graders] == [
        ("contains_text", "assertion"),
        ("exact", "assertion"),
        ("contains_text.2", "assertion"),
        ("is_error", "assertion"),
        ("checks", "checks"),
        ("judge.style", "judge"),
        ("judge.command", "judge"),
    ]
    assert graders[4].spec.files == [CHECKS]


def test_an_own_name_that_is_taken_gets_a_number():
    specs = [assertion("equals", name="a"), assertion("equals", name="a"), assertion("equals", name="checks")]
    graders = graders_for(plan(assertions=specs), Variant(name="v"), case(checks=CHECKS))
    assert [grader.name for grader in graders] == ["a", "a.2", "checks.2", "checks"]


def test_pairwise_judges_have_their_own_prefix():
    specs = [judge("smaller", "smaller_diff"), judge(None, "python")]
    assert [grader.name for grader in pairwise_for(plan(pairwise_judges=specs))] == [
        "pairwise.smaller",
        "pairwise.python",
    ]


def test_the_cases_settings_win_and_the_rest_is_inherited():
    shared = judge("style", threshold=0.9, reps=3, options={"argv": ["a"], "model": "m"}, secrets=["KEY"])
    own = judge("style", threshold=0.5, options={"argv": ["b"]})
    found = merged(shared, own)
    assert (found.threshold, found.reps, found.secrets) == (0.5, 3, ["KEY"])
    assert found.options == {"argv": ["b"], "model": "m"}


def test_a_case_can_go_back_to_a_default_when_it_says_so():
    shared = judge("style", threshold=0.9)
    assert merged(shared, judge("style", threshold=0.7, given=["threshold"])).threshold == 0.7
    assert merged(shared, judge("style", threshold=0.7)).threshold == 0.9


def test_merging_is_the_same_after_a_trip_through_a_bundle():
    shared, own = judge("style", threshold=0.9, reps=3), judge("style", threshold=0.7, given=["threshold"])
    again = [GraderSpec.model_validate_json(spec.to_json()) for spec in (shared, own)]
    assert merged(shared, own).identity() == merged(*again).identity()
    assert merged(shared, own) == merged(*again)


def test_a_judge_of_the_same_name_and_another_type_inherits_nothing():
    own = judge("style", "python", options={"call": "m:f"})
    assert merged(judge("style", reps=3), own) == own


def test_a_cases_own_judges_follow_and_its_reps_are_for_all_but_those_that_say():
    shared = [judge("a"), judge("b", reps=5)]
    own = [judge("b", reps=2), judge("c")]
    assert [(spec.name, spec.reps) for spec in merged_judges(shared, own, reps=4)] == [("a", 4), ("b", 2), ("c", 4)]
    assert [(spec.name, spec.reps) for spec in merged_judges(shared, own)] == [("a", 1), ("b", 2), ("c", 1)]


def test_an_empty_list_of_a_variant_leaves_only_the_cases_judges():
    graders = graders_for(plan(), Variant(name="v", judges=[]), case(judges=[judge("own")]))
    assert [grader.name for grader in graders] == ["judge.own"]
