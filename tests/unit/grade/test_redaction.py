from __future__ import annotations

from mst.grade.redaction import redacted
from mst.model.score import CheckResult, GraderScore, PairCall, SubScore
from mst.process.redact import Redactor

SECRET = "tok-123456"


def test_every_text_of_a_finding_is_redacted_and_its_form_stays():
    score = GraderScore(
        passed=True,
        score=0.5,
        details=f"saw {SECRET}",
        error=SECRET,
        sub_scores={SECRET: SubScore(score=1, reasoning=SECRET)},
        checks=[CheckResult(name="a", passed=True, detail=SECRET)],
        metadata={"list": [SECRET], SECRET: 1},
        judgments=[{"name": SECRET}],
    )
    found = redacted(score, Redactor([SECRET]))
    assert SECRET.encode() not in found.to_json()
    assert (found.passed, found.score, found.details) == (True, 0.5, "saw [redacted]")
    assert GraderScore.model_validate_json(found.to_json()) == found


def test_a_secret_that_is_a_word_of_our_format_does_not_break_the_record():
    call = PairCall(order="baseline_first", baseline_trial=0, candidate_trial=0, preference="tie", reasoning="a tie")
    found = redacted(call, Redactor(["tie", "baseline_first", "order"]))
    assert (found.preference, found.order, found.reasoning) == ("tie", "baseline_first", "a [redacted]")


def test_without_secrets_nothing_is_copied():
    score = GraderScore(passed=True)
    assert redacted(score, Redactor([])) is score
