import itertools

import pytest

from mst.errors import EXIT_CODES, InvariantError, UsageError
from mst.model.run import Phases
from mst.report.gates import (
    CONDITIONS,
    GateOutcome,
    default_conditions,
    exit_code,
    gate,
    outcome_codes,
    parse_conditions,
)


def verdicts(summary, **changes):
    changed = [verdict.model_copy(update=changes) for verdict in summary.verdicts]
    return summary.model_copy(update={"verdicts": changed})


def variants(summary, *, failed=None, scored=None):
    def changed(variant):
        result = variant.result if failed is None else variant.result.model_copy(update={"failed": failed})
        counts = variant.counts if scored is None else variant.counts.model_copy(update={"scored": scored})
        return variant.model_copy(update={"result": result, "counts": counts})

    return summary.model_copy(update={"variants": [changed(variant) for variant in summary.variants]})


def test_the_default_asks_one_variant_for_no_failure_and_several_for_no_step_back():
    assert default_conditions(1) == ("any-failure",)
    assert default_conditions(2) == ("worse", "regression")


def test_conditions_are_read_once_each_with_commas_or_repeats():
    assert parse_conditions(["worse,not-better", "worse"]) == ("worse", "not-better")
    assert parse_conditions([]) == ()


@pytest.mark.parametrize("values", [["better"], ["never", "worse"], ["worse", "Worse"]])
def test_bad_conditions_are_usage_errors(values):
    with pytest.raises(UsageError, match="--fail-on"):
        parse_conditions(values)


def test_one_variant_with_a_failed_case_fails_by_default(alone):
    outcome = gate(alone.summary)
    assert outcome.failed
    assert outcome.conditions == ("any-failure",)
    assert outcome.reasons == ("any-failure: autoflake failed 18 of 24 cases",)
    assert not gate(variants(alone.summary, failed=0)).failed


def test_a_run_in_which_nothing_was_scored_does_not_pass(alone):
    outcome = gate(variants(alone.summary, failed=0, scored=0))
    assert outcome.reasons == ("any-failure: nothing was scored, so nothing passed",)


def test_a_broken_regression_case_fails_several_variants_by_default(four):
    outcome = gate(four.summary)
    assert outcome.failed
    assert outcome.reasons == ("regression: ruff-unsafe breaks 1 regression case (query-none)",)


def test_at_several_trials_a_regression_needs_the_test(repeated):
    flipped = verdicts(repeated.summary, regressions=["a"], regressions_shown=[])
    assert not gate(flipped, ["regression"]).failed
    assert gate(verdicts(repeated.summary, regressions=["a"], regressions_shown=["a"]), ["regression"]).failed


def test_worse_fails_and_the_other_words_do_not(four):
    assert gate(verdicts(four.summary, verdict="worse"), ["worse"]).failed
    for word in ("better", "cannot tell", "no difference shown"):
        assert not gate(verdicts(four.summary, verdict=word), ["worse"]).failed


def test_not_better_names_every_candidate_without_a_better(four):
    assert gate(four.summary, ["not-better"]).reasons == ("not-better: pyupgrade - cannot tell",)
    assert gate(verdicts(four.summary, verdict="no difference shown"), ["not-better"]).failed


def test_cannot_tell_fails_only_on_that_word(four):
    assert gate(four.summary, ["cannot-tell"]).reasons == ("cannot-tell: pyupgrade - cannot tell",)
    assert not gate(verdicts(four.summary, verdict="worse"), ["cannot-tell"]).failed


@pytest.mark.parametrize("condition", ["not-better", "cannot-tell"])
def test_a_candidate_without_a_verdict_has_proven_nothing(four, alone, condition):
    silent = four.summary.model_copy(update={"verdicts": []})
    assert len(gate(silent, [condition]).reasons) == 3
    assert gate(alone.summary, [condition]).failed


def test_never_and_a_collected_only_run_pass(four, alone):
    assert not gate(verdicts(four.summary, verdict="worse"), ["never"]).failed
    assert not gate(alone.summary.model_copy(update={"graded": False})).failed


def test_exit_codes_follow_their_precedence():
    order = [130, 2, 5, 4, 3, 1, 0]
    for stronger, weaker in itertools.combinations(order, 2):
        assert exit_code([weaker, stronger]) == stronger
    assert exit_code([]) == 0
    assert set(order) == set(EXIT_CODES)


def test_an_unknown_exit_code_is_a_bug():
    with pytest.raises(InvariantError):
        exit_code([7])


@pytest.mark.parametrize(
    ("collect", "grade", "failed", "code"),
    [
        ("complete", "complete", False, 0),
        ("complete", "complete", True, 1),
        ("partial", "complete", True, 3),
        ("complete", "partial", False, 3),
        ("complete", "failed", True, 4),
        ("complete", "skipped", False, 0),
    ],
)
def test_a_partial_phase_outranks_the_gate(collect, grade, failed, code):
    outcome = GateOutcome(conditions=(CONDITIONS[0],), failed=failed, reasons=())
    assert exit_code(outcome_codes(Phases(collect=collect, grade=grade), outcome)) == code
