"""The test in whole numbers, its fast path for large comparisons, and where it becomes approximate."""

import itertools
import math
import random
from fractions import Fraction

import pytest

from mst.stats import signflip, transform


def enumerated(differences):
    sums = [
        sum(sign * difference for sign, difference in zip(signs, differences, strict=True))
        for signs in itertools.product((1, -1), repeat=len(differences))
    ]
    seen = sum(differences)
    return sum(total >= seen for total in sums) / len(sums), sum(total <= seen for total in sums) / len(sums)


@pytest.mark.parametrize(
    "differences", [[3], [1, 1, 1], [2, -1, 0, 3], [5, -7, 11, 2, -2], [6, 6, -6, 4, 2, 0, 0], [10**30, -1, 3]]
)
def test_equals_enumeration(differences):
    found = signflip.sign_flip(differences)

    assert (found.p_better, found.p_worse) == enumerated(differences)
    assert found.method == "exact"


@pytest.mark.parametrize("differences", [[], [0, 0, 0]])
def test_nothing_decisive_is_no_evidence(differences):
    found = signflip.sign_flip(differences)

    assert (found.p_better, found.p_worse, found.decisive) == (1.0, 1.0, 0)
    assert found.unchanged == len(differences)


@pytest.mark.parametrize("magnitudes", [{1: 200}, {1: 60, 2: 50, 3: 20}, {2: 31, 5: 40, 7: 9}])
@pytest.mark.parametrize("place", [0.0, 0.3, 0.5, 0.6, 0.9, 0.995, 1.0])
def test_transform_gives_the_tail_that_whole_numbers_give(magnitudes, place):
    reach = sum(size * count for size, count in magnitudes.items())
    bound = round(place * reach)
    (weight,) = signflip._tail_weights(magnitudes, (bound,), signflip._integer_row)
    exact = weight / (1 << sum(magnitudes.values()))

    assert transform.upper_tail(magnitudes, bound) == pytest.approx(exact, rel=1e-9)


def test_transform_of_impossible_and_certain_sums():
    assert transform.upper_tail({1: 3}, 0) == 1.0
    assert transform.upper_tail({1: 3}, 4) == 0.0


def test_sparse_sums_with_many_units_use_probabilities():
    magnitudes = {1000: 4000, 997: 30}
    assert not signflip._fits_integers(magnitudes)
    bound = 1000 * 2060 + 997 * 15

    (found,) = signflip.upper_tails(magnitudes, (bound,))
    (weight,) = signflip._tail_weights(magnitudes, (bound,), signflip._integer_row)

    assert found == pytest.approx(weight / (1 << 4030), rel=1e-9)


def test_past_the_limit_it_is_normal_and_says_so():
    rng = random.Random(3)
    differences = [rng.randint(-(10**9), 10**9) for _ in range(60)]

    found = signflip.sign_flip(differences)

    z = sum(differences) / math.sqrt(sum(difference**2 for difference in differences))
    assert found.method == "normal"
    assert found.p_better == pytest.approx(math.erfc(z / math.sqrt(2)) / 2)
    assert found.p_better + found.p_worse == pytest.approx(1)


def test_the_limit_lies_at_the_number_of_possible_sums():
    assert signflip.sign_flip([1] * (signflip.EXACT_SUMS - 1)).method == "exact"
    assert signflip.sign_flip([1] * signflip.EXACT_SUMS).method == "normal"


def test_huge_numbers_do_not_overflow():
    assert signflip.sign_flip([10**200 + index * 10**190 for index in range(400)]).p_better < 1e-50


def test_whole_numbers_keep_ratios():
    assert signflip.whole_numbers([Fraction(1, 3), Fraction(-1, 2), Fraction(0)]) == [2, -3, 0]


@pytest.mark.parametrize("differences", [[1, -1], [1, 2, -3, 0], [4, 1, 1], []])
def test_extreme_patterns_count_both_sides_and_zeros(differences):
    patterns = list(itertools.product((1, -1), repeat=len(differences)))
    sums = [sum(s * d for s, d in zip(signs, differences, strict=True)) for signs in patterns]
    expected = sum(abs(total) >= abs(sum(differences)) for total in sums)

    assert signflip.extreme_patterns(differences) == (expected, len(patterns))


def test_extreme_patterns_beyond_counting_are_none():
    rng = random.Random(1)
    assert signflip.extreme_patterns([rng.randint(1, 10**9) for _ in range(40)]) is None
