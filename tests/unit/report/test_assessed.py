from __future__ import annotations

import io

import pytest
from rich.console import Console

from mst.grade.assess import Assessment
from mst.report.assessed import NOTHING, counted, render_assessments


def assessment(probe, figures, **fields):
    return Assessment(**{"grader": "judge.a", "probe": probe, "n": 10, "errors": 0, "figures": figures, **fields})


STEADY = assessment("stability", {"modalShare": 0.8, "unanimous": 0.7, "changed": 3, "scoreStdDev": 0.333})


@pytest.mark.parametrize(
    ("one", "said"),
    [
        (
            STEADY,
            "stability: asked the same again, 7 of 10 verdicts stayed, scores spread by 0.33 (standard deviation)",
        ),
        (
            assessment("length", {"up": 9, "down": 0, "meanShift": 0.5, "p": 0.0039}, errors=1),
            (
                "length: the same answer said at twice the length: higher in 9 of 10 scores, lower in 0, "
                "+0.50 on average (p 0.0039); 1 call gave no answer"
            ),
        ),
        (
            assessment("self_preference", {"won": 10, "lost": 0, "tie": 0, "p": 0.002}),
            (
                "self-preference: the same answer signed with the judge's own name, not another: "
                "preferred in 10 of 10 pairs, not in 0, tied in 0 (p 0.0020)"
            ),
        ),
        (
            assessment("order", {"first": 20, "second": 0, "tie": 0, "p": 1.9e-06, "decided": 1.0}, n=20),
            "order: an answer beside itself: 0 of 20 times a tie, 20 the first, 0 the second (p < 0.0001)",
        ),
        (assessment("empty", {"passed": 5, "share": 0.5}), "empty: 5 of 10 empty answers passed"),
        (
            assessment("empty", {"passed": 0, "share": None}, n=0, errors=4),
            "empty: nothing was answered; 4 calls gave no answer",
        ),
    ],
)
def test_what_was_counted_is_a_sentence(one, said):
    assert counted(one) == said


def rendered(*found, width=60):
    out = io.StringIO()
    render_assessments(found, Console(file=out, width=width))
    return out.getvalue()


def test_findings_come_first_and_nothing_is_wider_than_the_terminal():
    bad = STEADY.model_copy(
        update={"finding": "flips: asked the same again, it changed its verdict on 3 of 10 questions"}
    )
    text = rendered(bad, assessment("empty", {"passed": 0, "share": 0.0}, grader="judge.b"))
    assert text.startswith("judge.a flips: asked the same again")
    assert [line for line in text.splitlines() if line in ("judge.a", "judge.b")] == ["judge.a", "judge.b"]
    assert max(map(len, text.splitlines())) <= 60


def test_no_finding_is_no_praise():
    assert NOTHING in rendered(STEADY, width=200)
