from __future__ import annotations

import json

import pytest

from mst.errors import GraderError
from mst.judges.verdict import PairVerdict, Verdict, parse_answer
from mst.model.score import SubScore
from mst.model.transcript import Usage


def test_both_spellings_are_read():
    for key in ("sub_scores", "subScores"):
        answer = {"score": 1, key: {"a": {"score": 0, "pass": False}}, "usage": {"inputTokens": 3}}
        found = parse_answer(json.dumps(answer), Verdict).finding()
        assert found.sub_scores == {"a": SubScore(score=0, passed=False)}
        assert found.usage == Usage(input_tokens=3)


def test_a_skipped_answer_has_no_score():
    found = parse_answer('{"skipped": true, "score": 1, "pass": true, "reasoning": "no"}', Verdict).finding()
    assert (found.score, found.passed, found.reasoning) == (None, None, "no")


@pytest.mark.parametrize(
    "answer",
    [
        {},
        {"score": None},
        {"score": 1.0001},
        {"score": -1},
        {"score": "0.5"},
        {"score": False},
        {"score": 1, "pass": "true"},
        {"score": 1, "skipped": 1},
        {"score": 1, "verdict": "good"},
        {"score": 1, "sub_scores": {"a": {"score": 2}}},
        {"score": 1, "usage": {"tokens": 1}},
        {"score": 1, "metadata": [1]},
        [],
        "text",
        None,
    ],
)
def test_an_answer_out_of_range_is_an_error(answer):
    with pytest.raises(GraderError, match="the answer"):
        parse_answer(json.dumps(answer), Verdict)


def test_faults_do_not_repeat_values():
    with pytest.raises(GraderError) as raised:
        parse_answer('{"score": "tok-123456"}', Verdict)
    assert "tok-123456" not in str(raised.value)


@pytest.mark.parametrize(("candidate_first", "first"), [(False, "baseline"), (True, "candidate")])
def test_positions_are_mapped_in_every_part(candidate_first, first):
    answer = {
        "preference": "first",
        "strength": 0.5,
        "dimensions": {"style": {"preference": "first", "first": 4, "second": 2, "reasoning": "r"}},
    }
    found = parse_answer(json.dumps(answer), PairVerdict).choice(candidate_first=candidate_first)
    second = "candidate" if first == "baseline" else "baseline"
    assert found.preference == first
    assert found.dimensions == {"style": {"preference": first, "reasoning": "r", first: 4.0, second: 2.0}}


@pytest.mark.parametrize("answer", [{}, {"preference": "baseline"}, {"preference": "first", "strength": 1.1}])
def test_a_preference_that_is_none_is_an_error(answer):
    with pytest.raises(GraderError):
        parse_answer(json.dumps(answer), PairVerdict)
