from __future__ import annotations

from typing import Any

import pytest
from pydantic import ValidationError

from mst.grade.assertions import ASSERTIONS
from mst.model.transcript import Event
from mst.testing.judge import make_subject


def call(name: str, **fields: Any) -> Event:
    return Event(kind="tool_call", name=name, **fields)


@pytest.fixture
def grade(tmp_path):
    def run(name: str, options: Any, *events: Event, **subject: Any):
        assertion = ASSERTIONS[name]
        return assertion.grade(
            make_subject(tmp_path, events=events, **subject), assertion.Options.model_validate(options)
        )

    return run


@pytest.mark.parametrize("evidence", ["observed", "none"])
@pytest.mark.parametrize("name", ["tools_triggered", "tool_call_count"])
def test_they_fail_with_the_reason_when_evidence_is_not_structured(grade, name, evidence):
    options = {"calls": [{"name": "a"}]} if name == "tools_triggered" else {"min": 0}
    score = grade(name, options, call("a"), transcript_evidence=evidence)
    assert not score.passed
    assert "structured" in score.details
    assert evidence in score.details


def test_each_expected_call_needs_an_event_of_its_own(grade):
    twice = {"calls": [{"name": "a"}, {"name": "a"}]}
    assert grade("tools_triggered", twice, call("a"), call("a")).passed
    score = grade("tools_triggered", twice, call("a"))
    assert score.details == '"a" was called fewer times than expected'
    assert score.recall == 0.5


def test_a_greedy_choice_does_not_lose_a_match(grade):
    calls = [{"name": "a"}, {"name": "a", "arguments": {"x": 1}}]
    assert grade("tools_triggered", {"calls": calls}, call("a", arguments={"x": 1}), call("a")).passed


def test_arguments_are_compared_in_part(grade):
    expected = {"calls": [{"name": "a", "arguments": {"path": {"root": "/"}, "n": 1}}]}
    assert grade("tools_triggered", expected, call("a", arguments={"path": {"root": "/", "x": 2}, "n": 1.0})).passed
    assert not grade("tools_triggered", expected, call("a", arguments={"path": {"root": "/"}, "n": True})).passed
    assert not grade("tools_triggered", expected, call("a", arguments="text")).passed


def test_kind_source_and_server_are_compared_when_given(grade):
    event = Event(kind="skill", name="a", source="mcp", server="s")
    assert grade("tools_triggered", {"calls": [{"name": "a", "kind": "skill", "server": "s"}]}, event).passed
    assert not grade("tools_triggered", {"calls": [{"name": "a"}]}, event).passed
    assert not grade("tools_triggered", {"calls": [{"name": "a", "kind": "skill", "source": "builtin"}]}, event).passed


def test_strict_order_allows_others_between_and_names_what_is_out_of_order(grade):
    options = {"calls": [{"name": "a"}, {"name": "b"}], "order": "strict"}
    assert grade("tools_triggered", options, call("a"), call("x"), call("b")).passed
    score = grade("tools_triggered", options, call("b"), call("a"))
    assert not score.passed
    assert "out of order" in score.details


def test_an_optional_call_may_be_missing_but_does_not_displace_a_required_one(grade):
    options = {"calls": [{"name": "a", "required": False}, {"name": "b"}], "order": "strict"}
    assert grade("tools_triggered", options, call("b"), call("a")).passed
    assert grade("tools_triggered", {"calls": [{"name": "a", "required": False}]}, call("z")).recall is None


def test_exclusive_names_unexpected_calls(grade):
    options = {"calls": [{"name": "a"}], "exclusive": True}
    assert grade("tools_triggered", options, call("a"), call("a")).passed
    score = grade("tools_triggered", options, call("a"), call("rm"), Event(kind="message", name="assistant"))
    assert score.details == 'unexpected call of "rm"'
    assert score.precision == 0.5


def test_precision_is_unknown_without_calls(grade):
    score = grade("tools_triggered", {"calls": [{"name": "a"}]})
    assert (score.precision, score.recall, score.passed) == (None, 0.0, False)


@pytest.mark.parametrize(
    ("options", "passed"),
    [
        ({"exact": 2}, True),
        (2, True),
        ({"exact": 1}, False),
        ({"min": 1, "max": 2}, True),
        ({"min": 3}, False),
        ({"max": 1}, False),
    ],
)
def test_tool_call_count_has_bounds(grade, options, passed):
    assert grade("tool_call_count", options, call("a"), call("b"), Event(kind="command", name="ls")).passed is passed


@pytest.mark.parametrize("options", [{}, {"exact": 1, "min": 1}, {"min": 2, "max": 1}, {"min": -1}])
def test_bounds_that_make_no_sense_are_refused(options):
    with pytest.raises(ValidationError):
        ASSERTIONS["tool_call_count"].Options.model_validate(options)
