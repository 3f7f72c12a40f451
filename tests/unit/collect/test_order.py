"""The order of trials: every trial once, interleaved, the same everywhere."""

from __future__ import annotations

import tracemalloc
from collections import Counter

from mst.collect.order import trial_order

CASES = [f"case-{n}" for n in range(40)]
VARIANTS = ["a", "b", "c"]


def order(cases=CASES, variants=VARIANTS, trials=2, seed=7):
    return list(trial_order(cases, variants, lambda case_id: trials, seed))


def test_every_trial_comes_once():
    keys = order()
    assert len(keys) == len({str(key) for key in keys}) == len(CASES) * 3 * 2


def test_variants_of_a_case_and_trial_stand_next_to_each_other():
    keys = order()
    for start in range(0, len(keys), 3):
        block = keys[start : start + 3]
        assert len({(key.case_id, key.trial) for key in block}) == 1
        assert {key.variant for key in block} == set(VARIANTS)


def test_no_variant_is_always_first():
    first = Counter(key.variant for key in order()[::3])
    assert set(first) == set(VARIANTS)
    assert max(first.values()) < 50


def test_all_cases_have_had_a_trial_before_any_has_a_second():
    trials = [key.trial for key in order()]
    assert trials == sorted(trials)


def test_the_seed_decides_and_nothing_else():
    assert order() == order(cases=reversed(CASES), variants=VARIANTS[::-1])
    assert order() != order(seed=8)


def test_the_order_of_a_shard_is_a_part_of_the_whole_order():
    part = set(CASES[3::4])
    assert order(cases=part) == [key for key in order() if key.case_id in part]


def test_a_variant_less_leaves_the_others_where_they_were():
    assert order(variants=["a", "c"]) == [key for key in order() if key.variant != "b"]


def test_cases_may_have_trials_of_their_own():
    keys = list(trial_order(["x", "y", "none"], ["a"], {"x": 1, "y": 3, "none": 0}.get, 1))
    assert Counter(key.case_id for key in keys) == {"x": 1, "y": 3}


def test_no_cases_give_no_trials():
    assert order(cases=[]) == []


def test_the_order_is_pinned():
    # Stored runs name only the policy and the seed: this order must never change under the same policy name.
    keys = [str(key) for key in trial_order(["a", "b", "c"], ["x", "y"], lambda case_id: 1, 42)]
    assert keys == ["x/c/0", "y/c/0", "x/b/0", "y/b/0", "x/a/0", "y/a/0"]


def test_memory_does_not_grow_with_the_number_of_trials():
    def peak(trials):
        tracemalloc.start()
        for _ in trial_order(CASES, VARIANTS, lambda case_id: trials, 1):
            pass
        size = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        return size

    peak(1)
    assert peak(100) < 2 * peak(2)
