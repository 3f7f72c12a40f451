"""The numbers beside the verdicts come from the cases, and what is kept for them does not grow with the cases."""

from __future__ import annotations

import tracemalloc
from dataclasses import replace

import pytest

from mst.model.case import Case, EvalPlan, Variant
from mst.model.keys import ComparisonKey, TrialKey
from mst.model.run import Phases
from mst.model.score import ComparisonGrading, GraderScore, PairCall, Preference, TrialGrading
from mst.runs.assemble import case_results
from mst.runs.grading import GradedCase, GradedTrial
from mst.runs.locate import regrades_of
from mst.runs.metrics import MAX_DIFFERENCES, MetricDifferences
from mst.runs.numbers import groups, metric_differences, position, repeats
from mst.runs.summary import summarize
from mst.runs.totals import Totals
from mst.stats.intervals import mean_t
from mst.testing.judge import make_subject
from mst.testing.stored_run import collect_run, grade_here, write_echo_eval

PLAN = EvalPlan(
    name="e",
    config_id="c" * 64,
    content_hash="h" * 64,
    baseline="a",
    trials=3,
    variants=[Variant(name="a"), Variant(name="b")],
)


def call(order, preference):
    return PairCall(order=order, baseline_trial=0, candidate_trial=0, preference=preference)


class Cases:
    """Totals that take cases as numbers: passes of three trials by variant, and a metric."""

    def __init__(self, folder):
        self.folder = folder
        self.totals = Totals(PLAN, ["a", "b"])
        self.count = 0

    def add(self, passed, *, metric=None, tags=(), family=None, calls=None, ended=None):
        metadata = {"cluster": family} if family else {}
        case = Case(id=f"c{self.count}", dataset="d", tags=list(tags), metadata=metadata)
        self.count += 1
        trials = [
            self._trial(case, name, number, passed, metric or {}, ended or {}) for name in "ab" for number in range(3)
        ]
        comparisons = [] if calls is None else [self._comparison(case, calls)]
        graded = GradedCase(case=case, trials=trials, comparisons=comparisons)
        self.totals.add(graded, case_results(PLAN, graded, ["a", "b"]))

    def _trial(self, case, name, number, passed, metric, ended):
        key = TrialKey(variant=name, case_id=case.id, trial=number)
        score = GraderScore(passed=number < passed[name], metrics={"lines": metric.get(name)})
        return GradedTrial(
            key=key,
            subject=make_subject(self.folder, text="x", variant=name, error_kind=ended.get(name)),
            grading=TrialGrading(key=key, trial_digest="", scores={"checks": score}, identities={}),
        )

    def _comparison(self, case, calls):
        found = Preference(judge="pairwise.p", preference="tie", pairs=calls)
        key = ComparisonKey(candidate="b", case_id=case.id)
        return ComparisonGrading(key=key, trial_digests=[], preferences={"pairwise.p": found}, identities={})


@pytest.fixture
def cases(tmp_path):
    return Cases(tmp_path)


def test_repeats_are_unbiased_means_over_cases(cases):
    cases.add({"a": 1, "b": 3})
    cases.add({"a": 2, "b": 3})
    found = {rate.k: rate for rate in repeats(cases.totals, "a")}
    assert list(found) == [1, 2, 3]
    assert found[1].pass_at_k == found[1].pass_hat_k == pytest.approx(0.5)
    assert found[2].pass_at_k == pytest.approx((2 / 3 + 1) / 2)
    assert found[2].pass_hat_k == pytest.approx((0 + 1 / 3) / 2)
    assert (found[3].pass_at_k, found[3].pass_hat_k, found[3].cases, found[3].too_few) == (1.0, 0.0, 2, 0)
    assert [rate.pass_hat_k for rate in repeats(cases.totals, "b")] == [1.0, 1.0, 1.0]


def test_groups_are_apart_and_held_out_comes_before_regression(cases):
    cases.add({"a": 3, "b": 3})
    cases.add({"a": 3, "b": 0}, tags=["regression"])
    cases.add({"a": 0, "b": 3}, tags=["regression", "held-out"])
    found = groups(cases.totals, "b")
    assert {name: (group.cases, group.passed, group.pass_rate) for name, group in found.items()} == {
        "capability": (1, 1, 1.0),
        "regression": (1, 0, 0.0),
        "held-out": (1, 1, 1.0),
    }


@pytest.mark.parametrize("family", [None, "pairs"])
def test_metric_differences_are_taken_case_by_case_without_held_out_cases(cases, family):
    lines = [(10, 12), (7, 7), (3, 8), (5, None), (20, 19)]
    for number, (before, after) in enumerate(lines):
        name = f"f{number // 2}" if family else None
        cases.add({"a": 1, "b": 1}, metric={"a": before, "b": after}, family=name)
    cases.add({"a": 1, "b": 1}, metric={"a": 0, "b": 1000}, tags=["held-out"])
    families = ["f0", "f0", "f1", "f1", "f2"] if family else None
    expected = mean_t([2, 0, 5, None, -1], families)
    found = metric_differences(cases.totals, "b")["lines"]
    assert found.difference == pytest.approx(expected.mean)
    assert found.interval.lower == pytest.approx(expected.interval.low)
    assert found.interval.upper == pytest.approx(expected.interval.high)
    assert (found.cases, found.units, found.unknown, found.level) == (4, 3 if family else 4, 1, 0.95)


def test_a_metric_that_never_differs_has_no_interval_and_says_why(cases):
    for _ in range(3):
        cases.add({"a": 1, "b": 1}, metric={"a": 4, "b": 4})
    found = metric_differences(cases.totals, "b")["lines"]
    assert (found.difference, found.interval) == (0, None)
    assert "all 3 units have the same value" in found.reason


def test_a_metric_that_one_side_never_has_has_no_difference(cases):
    cases.add({"a": 1, "b": 1}, metric={"b": 4})
    assert "lines" not in metric_differences(cases.totals, "b")


def test_cases_before_a_metric_first_appeared_count_as_unknown(cases):
    cases.add({"a": 1, "b": 1})
    cases.add({"a": 1, "b": 1}, metric={"a": 4, "b": 5})
    found = metric_differences(cases.totals, "b")["lines"]
    assert (found.cases, found.unknown) == (1, 1)


def test_the_slots_of_both_orders_are_counted_with_an_exact_p(cases):
    always_first = [call("baseline_first", "baseline"), call("candidate_first", "candidate")]
    agreed = [call("baseline_first", "candidate"), call("candidate_first", "candidate")]
    for number in range(12):
        cases.add({"a": 1, "b": 1}, calls=agreed if number < 2 else always_first)
    found = position(cases.totals.pairwise["b", "pairwise.p"])
    assert (found.pairs, found.consistent, found.flips_to_first, found.flips_to_second) == (12, 2, 10, 0)
    assert found.p_flips == pytest.approx(2 * 0.5**10)
    assert (found.first_share, found.decisive) == (pytest.approx(22 / 24), 24)


def test_one_order_says_nothing_of_position(cases):
    cases.add({"a": 1, "b": 1}, calls=[call("baseline_first", "baseline")])
    assert position(cases.totals.pairwise["b", "pairwise.p"]) is None


def test_the_summary_says_whether_there_is_enough_data(cases):
    source = cases
    for number in range(10):
        source.add({"a": 0, "b": 3 if number < 4 else 0})
    [verdict] = verdicts(source)
    assert verdict.verdict == "cannot tell"
    found = verdict.enough
    assert (found.units, found.decisive_units, found.decisive_needed, found.smallest_p) == (10, 4, 6, 0.0625)
    assert found.more_trials_add_nothing
    assert found.detectable == pytest.approx(2.8016 * mean_t([1] * 4 + [0] * 6).se, rel=1e-3)
    assert found.units_for_wanted > 10


def test_a_regression_that_fell_has_its_trials_and_its_test(cases):
    cases.add({"a": 3, "b": 0}, tags=["regression"])
    cases.add({"a": 3, "b": 3}, tags=["regression"])
    [verdict] = verdicts(cases)
    [fell] = verdict.regression_tests
    assert (fell.case_id, fell.baseline_passed, fell.candidate_passed, fell.candidate_scored) == ("c0", 3, 0, 3)
    assert (fell.p, fell.p_holm, fell.evidence) == (pytest.approx(0.05), pytest.approx(0.1), False)
    assert fell.trials_needed == 4


def test_a_variant_whose_program_always_breaks_off_is_named(cases):
    cases.add({"a": 3, "b": 0}, ended={"a": "agent", "b": "agent"})
    cases.add({"a": 3, "b": 0}, ended={"b": "agent"})
    [warning] = [said for said in summary(cases).warnings if "ended with an error" in said]
    assert warning.startswith("b: ")


def verdicts(cases):
    return summary(cases).verdicts


def summary(cases):
    phases = Phases(collect="complete", grade="complete")
    return summarize(_Run.record, cases.totals, phases, timestamp="", duration_ms=0, previous=None)


class _Run:
    record: object = None


@pytest.fixture(autouse=True)
def _stored_record(tmp_path):
    _Run.record = collect_run(write_echo_eval(tmp_path / "eval", cases=1), tmp_path / "results").run()


def test_what_is_kept_for_metrics_does_not_grow_with_the_cases():
    def kept_bytes(cases):
        tracemalloc.start()
        found = MetricDifferences()
        for number in range(cases):
            found.add({"lines": number}, {"lines": number % 7}, None)
        size, _ = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        return size

    kept_bytes(10)
    assert kept_bytes(5000) < kept_bytes(50) + 2000


def test_no_more_metrics_are_followed_than_there_may_be():
    found = MetricDifferences()
    names = {f"m{number}": 1.0 for number in range(MAX_DIFFERENCES + 50)}
    found.add(names, names, None)
    assert len(found.estimates()) == MAX_DIFFERENCES


def test_a_stored_run_has_these_numbers_in_its_summary(tmp_path):
    config = write_echo_eval(tmp_path / "more", cases=8, trials=2)
    source = collect_run(config, tmp_path / "stored")
    grade_here(source, tmp_path / "scratch")
    [regrade] = regrades_of(source)
    summary = regrade.summary()
    polite = next(variant for variant in summary.variants if variant.name == "polite")
    assert [(rate.k, rate.pass_at_k, rate.pass_hat_k) for rate in polite.repeats] == [(1, 1, 1), (2, 1, 1)]
    assert polite.groups["capability"].passed == 8
    [verdict] = summary.verdicts
    assert verdict.enough.more_trials_add_nothing
    assert verdict.metric_differences["duration_s_mean"].cases == 8


def test_trials_with_nothing_to_score_are_errored_and_told_apart_from_broken_machines(tmp_path):
    cases = Cases(tmp_path)
    case = Case(id="c", dataset="d")
    trials = []
    for number, changes in enumerate(
        [
            {"status": "incomplete", "error": "no solution"},
            {"status": "error", "error": "disk full", "error_kind": "environment", "infrastructure_error": True},
            {},
        ]
    ):
        subject = make_subject(tmp_path, text="x", variant="a")
        subject = replace(subject, record=subject.record.model_copy(update=changes))
        key = TrialKey(variant="a", case_id="c", trial=number)
        score = {"g": GraderScore(passed=True)}
        grading = None if changes else TrialGrading(key=key, trial_digest="", scores=score, identities={})
        trials.append(GradedTrial(key=key, subject=subject, grading=grading))
    graded = GradedCase(case=case, trials=trials, comparisons=[])
    results = case_results(PLAN, graded, ["a"])
    cases.totals.add(graded, results)
    counts = cases.totals.variants["a"].counts()
    assert (counts.scored, counts.errored, counts.grading_errors, counts.incomplete) == (1, 2, 0, 1)
    assert results[0].infrastructure_error_count == 1


@pytest.mark.parametrize(("passed", "reached"), [(7, True), (6, False)])
def test_a_case_whose_share_is_its_threshold_passes_whatever_rounding_makes_of_it(tmp_path, passed, reached):
    case = Case(id="c", dataset="d", pass_threshold=0.28)
    subject = make_subject(tmp_path, text="x", variant="a")
    trials = []
    for number in range(25):
        key = TrialKey(variant="a", case_id="c", trial=number)
        score = {"g": GraderScore(passed=number < passed)}
        grading = TrialGrading(key=key, trial_digest="", scores=score, identities={})
        trials.append(GradedTrial(key=key, subject=subject, grading=grading))
    (result,) = case_results(PLAN, GradedCase(case=case, trials=trials, comparisons=[]), ["a"])
    assert result.passed is reached
