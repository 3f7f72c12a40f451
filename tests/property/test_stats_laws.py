"""Laws that hold for any data."""

import itertools
import math
from fractions import Fraction

from hypothesis import given
from hypothesis import strategies as st

from mst.stats.agreement import cohen_kappa, krippendorff_alpha
from mst.stats.cases import CandidateData, CaseData, TrialCounts, unit_sums
from mst.stats.compare import compare
from mst.stats.decision import decide
from mst.stats.intervals import cluster_se, pass_rate, wilson
from mst.stats.multiplicity import benjamini_hochberg, bonferroni, holm
from mst.stats.regression import fisher_lower
from mst.stats.repeats import pass_at_k, pass_hat_k
from mst.stats.signflip import sign_flip, whole_numbers

SMALL = st.lists(st.integers(-6, 6), max_size=9)
P_VALUES = st.lists(st.floats(0, 1), min_size=1, max_size=12)


@st.composite
def counts(draw, most=4):
    planned = draw(st.integers(0, most))
    scored = draw(st.integers(0, planned))
    errored = draw(st.integers(0, planned - scored))
    return TrialCounts(draw(st.integers(0, scored)), scored, planned, errored)


@st.composite
def case_lists(draw, most=25):
    pairs = draw(
        st.lists(st.tuples(counts(), counts(), st.sampled_from([None, "f", "g"]), st.booleans()), max_size=most)
    )
    return [
        CaseData(f"c{index}", before, after, family=family, regression=regression)
        for index, (before, after, family, regression) in enumerate(pairs)
    ]


def mirrored(cases):
    return [CaseData(case.case_id, case.candidate, case.baseline, case.family) for case in cases]


@given(SMALL)
def test_exact_p_equals_enumeration(differences):
    sums = [
        sum(sign * difference for sign, difference in zip(signs, differences, strict=True))
        for signs in itertools.product((1, -1), repeat=len(differences))
    ]
    found = sign_flip(differences)
    assert found.p_better == sum(total >= sum(differences) for total in sums) / len(sums)
    assert found.p_worse == sum(total <= sum(differences) for total in sums) / len(sums)


@given(st.lists(st.integers(-50, 50), max_size=60))
def test_sign_flip_is_symmetric_and_its_tails_overlap(differences):
    found, turned = sign_flip(differences), sign_flip([-difference for difference in differences])
    assert (found.p_better, found.up) == (turned.p_worse, turned.down)
    assert found.p_better + found.p_worse >= 1
    assert 2.0**-found.decisive <= found.p_better <= 1


@given(st.lists(st.integers(-50, 50), max_size=30), st.integers(1, 10**6), st.randoms(use_true_random=False))
def test_sign_flip_ignores_scale_order_and_zeros(differences, scale, rng):
    changed = [difference * scale for difference in differences] + [0, 0]
    rng.shuffle(changed)
    assert sign_flip(changed).p_better == sign_flip(differences).p_better


@given(st.lists(st.integers(-9, 9), min_size=1, max_size=30))
def test_one_more_win_never_weakens_the_evidence(differences):
    before, after = sign_flip(differences), sign_flip([*differences, 9])
    assert after.p_better <= before.p_better
    assert after.p_worse >= before.p_worse


@given(st.lists(st.fractions(max_denominator=30), max_size=20))
def test_whole_numbers_keep_proportions(values):
    whole = whole_numbers(values)
    scale = math.lcm(*(value.denominator for value in values))
    assert [Fraction(number, scale) for number in whole] == values


@given(st.lists(st.tuples(st.integers(-9, 9), st.sampled_from([None, "f", "g", "h"])), max_size=30))
def test_families_keep_the_sum(pairs):
    values, families = [value for value, _ in pairs], [family for _, family in pairs]
    sums = unit_sums(values, families)
    assert sum(sums) == sum(values)
    assert len(sums) == families.count(None) + len(set(families) - {None})


@given(case_lists())
def test_comparison_mirrors(cases):
    found, turned = compare(cases), compare(mirrored(cases))
    # with unequal trial counts the chances are added up from the other end
    assert math.isclose(found.p_better, turned.p_worse, rel_tol=1e-9)
    assert math.isclose(found.p_worse, turned.p_better, rel_tol=1e-9)
    assert set(found.cases_up) == set(turned.cases_down)
    assert (found.difference is None) == (found.n_cases == 0)
    if found.difference is not None:
        assert math.isclose(found.difference, -turned.difference, abs_tol=1e-12)
        assert -1 <= found.difference <= 1
    assert found.n_cases + found.unmatched == len(cases)


@given(case_lists())
def test_trials_of_both_sides_add_up(cases):
    found = compare(cases)
    for side in (found.baseline, found.candidate):
        assert side.planned == side.scored + side.errored + side.missing
        assert side.missing >= 0


@given(st.lists(case_lists(most=14), min_size=1, max_size=4))
def test_verdicts_obey_the_rule(runs):
    verdicts = decide([CandidateData(f"v{index}", cases) for index, cases in enumerate(runs)])
    assert [verdict.variant for verdict in verdicts] == [f"v{index}" for index in range(len(runs))]
    for verdict in verdicts:
        assert (verdict.word == "cannot tell") == bool(verdict.reason_code) == bool(verdict.reason)
        if verdict.word == "better":
            assert verdict.p_better_holm < 0.025
            assert verdict.comparison.difference > 0
        if verdict.word == "worse":
            assert verdict.comparison.p_worse < 0.025
            assert verdict.comparison.difference < 0
        if verdict.word == "no difference shown":
            assert verdict.comparison.decisive_units >= verdict.decisive_needed


@given(case_lists(most=14), st.integers(1, 5))
def test_another_candidate_never_helps(cases, others):
    (alone,) = decide([CandidateData("x", cases)])
    crowd = decide([CandidateData("x", cases), *(CandidateData(f"o{index}", []) for index in range(others))])
    assert crowd[0].p_better_holm >= alone.p_better_holm


@given(case_lists(most=12))
def test_with_nothing_missing_the_fills_change_nothing(cases):
    whole = [
        CaseData(
            case.case_id,
            TrialCounts(case.baseline.passed, case.baseline.scored, case.baseline.scored),
            TrialCounts(case.candidate.passed, case.candidate.scored, case.candidate.scored),
            case.family,
        )
        for case in cases
    ]
    assert decide([CandidateData("x", whole)])[0].reason_code != "missing_data"


@given(P_VALUES)
def test_adjusted_p_values_keep_order_and_only_grow(p_values):
    for adjust in (holm, benjamini_hochberg, bonferroni):
        adjusted = adjust(p_values)
        assert all(p <= q <= 1 or math.isclose(p, q) for p, q in zip(p_values, adjusted, strict=True))
        order = sorted(range(len(p_values)), key=p_values.__getitem__)
        assert all(adjusted[a] <= adjusted[b] for a, b in itertools.pairwise(order))
    assert all(q <= b + 1e-15 for q, b in zip(holm(p_values), bonferroni(p_values), strict=True))


@given(P_VALUES, st.randoms(use_true_random=False))
def test_adjustment_does_not_depend_on_order(p_values, rng):
    order = list(range(len(p_values)))
    rng.shuffle(order)
    for adjust in (holm, benjamini_hochberg):
        shuffled = adjust([p_values[index] for index in order])
        assert shuffled == [adjust(p_values)[index] for index in order]


@given(st.integers(1, 500), st.data())
def test_wilson_holds_the_rate_mirrors_and_grows_with_passes(n, data):
    passed = data.draw(st.integers(0, n))
    found, turned = wilson(passed, n), wilson(n - passed, n)
    assert 0 <= found.low <= passed / n <= found.high <= 1
    assert math.isclose(found.low, 1 - turned.high, abs_tol=1e-12)
    if passed < n:
        assert wilson(passed + 1, n).low > found.low


@given(st.lists(counts(), max_size=30), st.data())
def test_pass_rate_lies_in_its_interval(cases, data):
    families = data.draw(st.lists(st.sampled_from([None, "f", "g"]), min_size=len(cases), max_size=len(cases)))
    found = pass_rate(cases, families)
    if found.rate is None:
        assert found.interval.reason
    else:
        assert found.interval.low - 1e-12 <= found.rate <= found.interval.high + 1e-12
        assert 0 < found.n_effective <= max(found.trials.scored, found.n_units)


@given(st.lists(st.floats(-5, 5), min_size=2, max_size=30))
def test_families_of_one_change_no_standard_error(values):
    plain, units = cluster_se(values)
    clustered, clusters = cluster_se(values, list(range(len(values))))
    assert units == clusters == len(values)
    assert math.isclose(plain, clustered, rel_tol=1e-9, abs_tol=1e-12)


@given(st.integers(1, 12), st.data())
def test_pass_at_k_grows_and_pass_hat_k_falls_with_k(n, data):
    passed = data.draw(st.integers(0, n))
    at = [pass_at_k(n, passed, k) for k in range(1, n + 1)]
    hat = [pass_hat_k(n, passed, k) for k in range(1, n + 1)]
    assert at == sorted(at)
    assert hat == sorted(hat, reverse=True)
    assert math.isclose(at[0], hat[0])


@given(st.integers(1, 8), st.integers(1, 8), st.data())
def test_fisher_falls_with_fewer_passes(n, before, data):
    passed, passed_before = data.draw(st.integers(1, n)), data.draw(st.integers(0, before))
    assert fisher_lower(passed, n, passed_before, before) >= fisher_lower(passed - 1, n, passed_before, before) - 1e-12
    assert math.isclose(fisher_lower(n, n, passed_before, before), 1)


@given(st.lists(st.tuples(st.sampled_from("abc"), st.sampled_from("abc")), min_size=2, max_size=30))
def test_agreement_is_symmetric_and_at_most_one(pairs):
    one, other = [a for a, _ in pairs], [b for _, b in pairs]
    kappa, turned = cohen_kappa(one, other).kappa, cohen_kappa(other, one).kappa
    assert kappa == turned
    assert kappa is None or kappa <= 1
    alpha = krippendorff_alpha([one, other], "nominal")
    assert alpha is None or alpha <= 1 + 1e-12
