from __future__ import annotations

import pytest

from mst.grade.comparing import call_key, majority, pairs_of, planned, settled, sides_passed
from mst.grade.contract import Pair
from mst.model.case import GraderSpec
from mst.model.score import PairCall
from mst.testing.judge import make_subject

SPEC = GraderSpec(type="command")


def call(order: str, preference: str | None, *, rep: int = 0, trial: int = 0, **fields) -> PairCall:
    return PairCall(
        order=f"{order}_first", rep=rep, baseline_trial=trial, candidate_trial=trial, preference=preference, **fields
    )


def outcome(*calls: PairCall):
    found = settled("pairwise.j", SPEC, calls, {})
    return found.preference, found.consistent


def pair(tmp_path, baseline: list[int], candidate: list[int]) -> Pair:
    first = make_subject(tmp_path)
    return Pair(
        case=first.case,
        candidate="b",
        baseline_trials=[make_subject(tmp_path, variant="a", trial=trial, passed=True) for trial in baseline],
        candidate_trials=[make_subject(tmp_path, variant="b", trial=trial) for trial in candidate],
    )


def test_trials_are_paired_by_number(tmp_path):
    pairs = pairs_of(pair(tmp_path, [2, 0], [0, 1, 2]))
    assert [(left.record.trial, right.record.trial) for left, right in pairs] == [(0, 0), (2, 2)]
    assert [left.record.variant for left, _ in pairs] == ["a", "a"]


def test_both_orders_are_asked_as_often_as_said(tmp_path):
    pairs = pairs_of(pair(tmp_path, [0], [0]))
    keys = [made.key for made in planned(pairs, GraderSpec(type="c", reps=2), deterministic=False)]
    assert keys == [
        ("baseline_first", 0, 0, 0),
        ("baseline_first", 1, 0, 0),
        ("candidate_first", 0, 0, 0),
        ("candidate_first", 1, 0, 0),
    ]
    assert len(planned(pairs, GraderSpec(type="c", reps=2), deterministic=True)) == 1
    assert len(planned(pairs, GraderSpec(type="c", swap=False), deterministic=False)) == 1


@pytest.mark.parametrize(
    ("first", "second", "expected"),
    [
        ("candidate", "candidate", ("candidate", True)),
        ("tie", "tie", ("tie", True)),
        ("candidate", "baseline", ("tie", False)),
        ("candidate", "tie", ("tie", False)),
        ("candidate", None, ("tie", False)),
    ],
)
def test_a_side_wins_only_when_both_orders_name_it(first, second, expected):
    assert outcome(call("baseline", first), call("candidate", second)) == expected


def test_one_order_alone_says_nothing_about_consistency():
    assert outcome(call("baseline", "candidate")) == ("candidate", None)


@pytest.mark.parametrize(
    ("sides", "expected"),
    [
        (["baseline", "baseline", "tie"], "baseline"),
        (["baseline", "candidate"], "tie"),
        (["baseline", "tie"], "tie"),
        (["baseline", "candidate", "tie"], "tie"),
        (["baseline", None], "baseline"),
        ([None], None),
    ],
)
def test_an_order_goes_by_the_strict_majority_of_its_answers(sides, expected):
    assert majority(sides) == expected


def test_a_case_goes_by_the_sum_of_its_pairs_and_one_inconsistent_pair_shows():
    calls = []
    for trial, (first, second) in enumerate([("candidate", "candidate"), ("candidate", "baseline"), ("tie", "tie")]):
        calls += [call("baseline", first, trial=trial), call("candidate", second, trial=trial)]
    assert outcome(*calls) == ("candidate", False)


def test_one_failed_call_is_a_grading_error_that_keeps_the_others():
    calls = [call("baseline", "candidate"), call("candidate", None, error="quota")]
    found = settled("pairwise.j", SPEC, calls, {})
    assert (found.preference, found.error) == (None, "1 of 2 calls failed: quota")
    assert [call_key(each) for each in found.pairs or []] == [call_key(each) for each in calls]


def test_all_skipped_is_skipped():
    found = settled("pairwise.j", SPEC, [call("baseline", None, skipped=True, reasoning="no diff")], {})
    assert (found.skipped, found.preference, found.reasoning) == (True, None, "no diff")
    nothing = settled("pairwise.j", SPEC, [], {})
    assert (nothing.skipped, nothing.reasoning) == (True, "no trial that both sides have")


def test_strength_is_that_of_the_calls_that_named_the_winner():
    found = settled(
        "pairwise.j",
        SPEC,
        [call("baseline", "baseline", strength=0.4), call("candidate", "baseline", strength=0.8)],
        {},
    )
    assert found.strength == pytest.approx(0.6)


def test_dimensions_follow_the_same_rule():
    def with_style(order: str, side: str) -> PairCall:
        return call(order, "candidate", dimensions={"style": {"preference": side, "strength": 1.0}})

    agreed = settled("j", SPEC, [with_style("baseline", "baseline"), with_style("candidate", "baseline")], {})
    assert agreed.dimensions == {"style": {"preference": "baseline"}}
    alone = settled("j", SPEC, [with_style("baseline", "baseline")], {})
    assert alone.dimensions == {"style": {"preference": "baseline", "strength": 1.0}}


def test_what_the_judge_was_told_of_the_sides_is_recorded(tmp_path):
    assert sides_passed(pair(tmp_path, [0], [0])) == {"baseline.0": True, "candidate.0": None}


def test_the_last_trials_of_both_sides_or_each_with_each(tmp_path):
    trials = pair(tmp_path, [1, 0], [0, 1, 2])

    def numbers(pairing):
        return [(left.record.trial, right.record.trial) for left, right in pairs_of(trials, pairing)]

    assert numbers("last") == [(1, 2)]
    assert numbers("all") == [(0, 0), (0, 1), (0, 2), (1, 0), (1, 1), (1, 2)]
    assert numbers("index") == [(0, 0), (1, 1)]


@pytest.mark.parametrize("pairing", ["index", "last", "all"])
def test_a_side_without_trials_makes_no_pair(tmp_path, pairing):
    assert pairs_of(pair(tmp_path, [0], [0]), pairing)
    first = pair(tmp_path, [0], [0])
    alone = Pair(case=first.case, candidate="b", baseline_trials=[], candidate_trials=first.candidate_trials)
    assert pairs_of(alone, pairing) == []


def test_how_trials_are_paired_is_part_of_the_identity():
    assert SPEC.identity().hash != SPEC.model_copy(update={"pairing": "all"}).identity().hash
    assert SPEC.identity().hash == SPEC.model_copy(update={"pairing": "index"}).identity().hash
