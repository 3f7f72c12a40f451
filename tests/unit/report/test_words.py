import pytest

from mst.model.numbers import Rate
from mst.model.run import Selection
from mst.model.summary import Counts
from mst.report.words import claim, counts_line, evidence, interval_note, pairwise_line, warnings


def verdict_on(made, candidate):
    return next(verdict for verdict in made.summary.verdicts if verdict.candidate == candidate)


def test_a_better_verdict_says_how_much_how_often_and_how_sure(four):
    verdict = verdict_on(four, "ruff")
    said = evidence(verdict, candidates=3)
    assert claim(verdict) == "ruff is better than autoflake"
    assert said.startswith("+45.0 points [+15.0, +75.0] at 98.33%, 9 cases up, 0 down of 20 compared, 3 unmatched")
    assert "p 0.0039 (Holm of 3, exact McNemar test" in said


def test_every_verdict_word_has_a_sentence_with_it(four):
    verdict = verdict_on(four, "ruff")
    for word in ("better", "worse", "cannot tell", "no difference shown"):
        assert word in claim(verdict.model_copy(update={"verdict": word}))


def test_worse_shows_its_own_uncorrected_p(four):
    worse = verdict_on(four, "ruff").model_copy(update={"verdict": "worse", "p_worse": 0.0123})
    assert "p 0.0123 for worse (uncorrected" in evidence(worse, candidates=3)


def test_nothing_compared_is_said_and_not_shown_as_zero(four):
    empty = verdict_on(four, "ruff").model_copy(update={"difference": None, "interval": None})
    assert evidence(empty, candidates=3).startswith("no case could be compared")


def test_a_pairwise_line_has_wins_losses_ties_errors_and_p(four):
    reader = next(pairwise for pairwise in four.summary.variants[2].pairwise if pairwise.judge.endswith("reader"))
    said = pairwise_line(reader)
    for part in (
        "ruff preferred in",
        "8 wins",
        "0 losses",
        "13 ties counted as half",
        "sign test p",
        "1 grading error",
    ):
        assert part in said


def test_counts_name_only_what_is_there_and_count_grading_errors_once():
    whole = Counts(planned=5, scored=5, errored=0, missing=0, ungraded=0, grading_errors=0)
    assert counts_line(whole) == "5 of 5 trials scored"
    gaps = Counts(planned=9, scored=3, errored=3, missing=1, ungraded=2, grading_errors=1)
    assert counts_line(gaps) == (
        "3 of 9 trials scored, 2 infrastructure failures, 1 missing, 2 ungraded, 1 grading error"
    )


def test_warnings_say_narrowing_looks_and_what_the_run_itself_found(four):
    run = four.run.model_copy(update={"partial": True, "selection": Selection(cases=["a", "b"]), "looks": 2})
    said = warnings(run, four.summary)
    assert said[0] == "This run was narrowed (cases a, b): it says nothing about what was left out."
    assert said[1].startswith("This data was extended 2 times")
    assert set(four.summary.warnings) <= set(said)


def test_a_failed_phase_and_a_collected_only_run_are_warned_about(alone):
    run = alone.run.model_copy(update={"phases": alone.run.phases.model_copy(update={"grade": "failed"})})
    said = warnings(run, alone.summary.model_copy(update={"graded": False}))
    assert said[0].startswith("The grade phase failed")
    assert said[1].startswith("This run was collected only")


@pytest.mark.parametrize(
    ("word", "lower", "upper", "says"),
    [
        ("no difference shown", 0.003, 1.0, "leaves out 0"),
        ("no difference shown", -0.5, -0.1, "leaves out 0"),
        ("no difference shown", -0.1, 0.5, None),
        ("cannot tell", 0.1, 0.5, None),
        ("better", -0.01, 0.5, "includes 0"),
        ("better", 0.01, 0.5, None),
        ("worse", -0.5, 0.01, "includes 0"),
    ],
)
def test_an_interval_that_seems_to_disagree_with_its_verdict_is_explained(four, word, lower, upper, says):
    verdict = four.summary.verdicts[0].model_copy(update={"verdict": word, "interval": Rate(lower=lower, upper=upper)})
    note = interval_note(verdict)
    assert (note is None) if says is None else (says in note and "exact test" in note)


def test_what_left_nothing_to_score_is_no_infrastructure_failure():
    gaps = Counts(planned=9, scored=5, errored=4, missing=0, ungraded=0, grading_errors=1, incomplete=2)
    assert counts_line(gaps) == (
        "5 of 9 trials scored, 1 infrastructure failure, 2 with nothing to score, 1 grading error"
    )


def test_a_correction_for_one_candidate_is_none_and_not_said(four):
    verdict = next(found for found in four.summary.verdicts if found.p_better_holm is not None)
    assert "Holm of 3, " in evidence(verdict, candidates=3)
    assert "Holm" not in evidence(verdict, candidates=1)
