from __future__ import annotations

from typing import Any

import pytest

from mst.errors import ConfigError, GraderError
from mst.grade.assertions import ASSERTIONS, Assertion
from mst.judges.options import parse_options
from mst.model.case import Case, GraderSpec
from mst.model.score import GraderScore
from mst.model.transcript import Event
from mst.testing.judge import make_subject


@pytest.fixture
def grade(tmp_path):
    def run(name: str, options: Any, *, text: str | None = "Hello world, ok", **subject: Any) -> GraderScore:
        assertion = ASSERTIONS[name]
        assert isinstance(assertion, Assertion)
        return assertion.grade(make_subject(tmp_path, text=text, **subject), assertion.Options.model_validate(options))

    return run


def test_contains_text_wants_every_text(grade):
    assert grade("contains_text", {"value": ["Hello", "ok"]}).passed
    score = grade("contains_text", {"value": ["Hello", "Bye"]})
    assert not score.passed
    assert score.details == 'does not contain "Bye"'


def test_a_bare_value_stands_for_the_main_option(grade):
    assert grade("contains_text", "ok").passed
    assert not grade("not_contains_text", "ok").passed
    assert grade("matches_pattern", "w.rld").passed
    assert grade("is_error", False).passed


def test_case_counts_unless_it_is_ignored(grade):
    assert not grade("contains_text", {"value": "HELLO"}).passed
    assert grade("contains_text", {"value": "HELLO", "ignore_case": True}).passed
    assert not grade("not_contains_text", {"value": "HELLO", "ignore_case": True}).passed


def test_without_an_answer_there_is_no_text(grade):
    assert not grade("contains_text", "ok", text=None).passed
    assert grade("not_contains_text", "ok", text=None).passed


@pytest.mark.parametrize(
    "options", [{"value": ""}, {"value": []}, {}, {"value": "x", "ignoreCasing": True}, {"value": 5}]
)
def test_options_that_cannot_be_meant_are_refused(options):
    spec = GraderSpec(type="contains_text", options=options)
    with pytest.raises(ConfigError, match="contains_text: "):
        parse_options(spec, ASSERTIONS["contains_text"].Options)


def test_a_pattern_that_does_not_compile_is_refused():
    with pytest.raises(ConfigError, match="is not valid"):
        parse_options(GraderSpec(type="m", options={"value": "(a"}), ASSERTIONS["matches_pattern"].Options)


def test_a_pattern_that_explodes_is_a_grading_error(grade):
    with pytest.raises(GraderError, match="did not end within 1 s"):
        grade("matches_pattern", r"^(a|aa)+$", text="a" * 80 + "b")


def test_patterns_search_anywhere_and_all_must_match(grade):
    assert grade("matches_pattern", {"value": ["^Hello", r"\bok$"]}).passed
    assert grade("matches_pattern", {"value": ["^Hello", "^ok"]}).details == 'does not match "^ok"'
    assert grade("matches_pattern", {"value": "HELLO", "ignore_case": True}).passed


def test_equals_normalises_texts(grade):
    assert grade("equals", "ok", text=" ok\n").passed
    assert not grade("equals", {"value": "ok", "strip": False}, text=" ok\n").passed
    assert not grade("equals", "a b", text="a  b").passed
    assert grade("equals", {"value": "a b", "collapse_whitespace": True}, text="a \n b").passed
    assert grade("equals", {"value": "OK", "ignore_case": True}, text="ok").passed
    assert grade("equals", "caf\u00e9", text="cafe\u0301").passed


def test_equals_without_a_value_means_the_expected_answer(grade):
    assert grade("equals", {}, text="the answer").passed
    without = Case(id="c", dataset="d")
    with pytest.raises(GraderError, match=r"expected\.answer"):
        grade("equals", {}, case=without)


@pytest.mark.parametrize(
    ("value", "text", "same"),
    [
        ({"a": [1, 2]}, '{"a": [1.0, 2]}', True),
        (1, "true", False),
        (True, "true", True),
        (None, "null", True),
        (3, "three", False),
        ([1], "[1, 2]", False),
    ],
)
def test_equals_reads_the_answer_as_json_when_another_type_is_expected(grade, value, text, same):
    assert grade("equals", {"value": value}, text=text).passed is same


def test_is_error_looks_at_the_record_the_transcript_and_the_last_call(grade):
    failed = Event(kind="tool_call", name="git", is_error=True, output="no repository")
    fine = Event(kind="tool_call", name="git", is_error=False, output="ok")
    assert grade("is_error", {"contains": "repository"}, events=[fine, failed]).passed
    assert not grade("is_error", True, events=[failed, fine]).passed
    assert not grade("is_error", {"contains": "network"}, events=[failed]).passed
    assert grade("is_error", True, error="exit code 2", error_kind="agent", status="error").passed
    assert not grade("is_error", False, error="exit code 2").passed


def test_long_values_are_cut_in_details(grade):
    assert len(grade("contains_text", "x" * 1000).details) < 200
