from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from mst.errors import GraderError
from mst.grade.assertions import ASSERTIONS
from mst.grade.assertions.numbers import numbers_of
from mst.model.case import Case
from mst.testing.judge import make_subject


@pytest.fixture
def grade(tmp_path):
    def run(name: str, text: str, answer=None, **options):
        found = ASSERTIONS[name]
        case = Case(id="c", dataset="d", expected={} if answer is None else {"answer": answer})
        return found.grade(make_subject(tmp_path, text=text, case=case), found.Options.model_validate(options))

    return run


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("It is 42.", [42]),
        ("1,234,567.89 EUR", [1234567.89]),
        ("from -3e8 to +.5", [-3e8, 0.5]),
        ("\u22127 degrees", [-7]),
        ("version 1.2.3, file2.txt, x86_64, v2", []),
        ("1, 2, 3", [1, 2, 3]),
        ("12,34", [12, 34]),
        ("(5)", [5]),
        ("1e999", []),
        ("...-,+", []),
        ("7%", [7]),
    ],
)
def test_numbers_of_a_text(text, expected):
    assert numbers_of(text) == expected


@given(st.floats(allow_nan=False, allow_infinity=False))
def test_every_written_number_is_read_back(number):
    assert numbers_of(f"is {number!r} or so") == [number]


@pytest.mark.parametrize(
    ("text", "options", "passed"),
    [
        ("it is 100.00001", {"value": 100, "rel": 1e-6}, True),
        ("it is 100.1", {"value": 100, "rel": 1e-6}, False),
        ("it is 100.1", {"value": 100, "abs": 0.2}, True),
        ("0.0001", {"value": 0}, False),
        ("0", {"value": 0}, True),
        ("5 then 7", {"value": 7}, True),
        ("5 then 7", {"value": 5, "which": "first"}, True),
        ("5 then 7", {"value": 7, "which": "only"}, False),
        ("none", {"value": 7}, False),
    ],
)
def test_a_number_is_close_enough(grade, text, options, passed):
    assert grade("number_close", text, **options).passed is passed


def test_the_cases_answer_is_meant_when_no_value_is_given(grade):
    assert grade("number_close", "12", 12).passed
    assert grade("number_close", "12", "12 apples").passed
    for answer in (None, "no number", "1 or 2", True, [1]):
        with pytest.raises(GraderError, match="no number to compare with"):
            grade("number_close", "12", answer)


SHOP = json.dumps({"items": [{"n": "a", "price": 5}, {"n": "b", "price": 15}, {"n": "c", "price": 25}]})


@pytest.mark.parametrize(
    ("options", "passed"),
    [
        ({"path": "$.items[0].n"}, True),
        ({"path": "$.items[9]"}, False),
        ({"path": "$.items[9]", "exists": False}, True),
        ({"path": "$.items", "exists": False}, False),
        ({"path": "$.items[?@.price > 10].n", "equals": "c"}, True),
        ({"path": "$.items[?@.price > 10].n", "equals": "c", "all": True}, False),
        ({"path": "$..price", "equals": 5.0}, True),
        ({"path": "$..price", "min_count": 3, "max_count": 3}, True),
        ({"path": "$..price", "max_count": 2}, False),
        ({"path": "$..none", "max_count": 0}, True),
        ({"path": "$..none", "equals": None}, False),
        ({"path": "$.items[?length(@.n) == 1]", "min_count": 3}, True),
    ],
)
def test_a_query_into_the_answer(grade, options, passed):
    assert grade("json_path", SHOP, **options).passed is passed


def test_null_is_a_value_that_can_be_wanted(grade):
    assert grade("json_path", '{"a": null}', path="$.a", equals=None).passed
    assert not grade("json_path", '{"a": 1}', path="$.a", equals=None).passed


def test_an_answer_that_is_nested_without_end_fails(grade):
    assert "nested too deeply" in grade("json_path", "[" * 900 + "]" * 900, path="$..a").details
    assert "nested too deeply" in grade("json_path", "[" * 100_000, path="$..a").details


def test_an_answer_that_is_no_json_fails(grade):
    assert "is not JSON" in grade("json_path", "a: 1", path="$.a").details


@pytest.mark.parametrize(
    "options",
    [
        {"path": "$.["},
        {"path": "items"},
        {"path": "$[?search(@.n, '(a+)+$')]"},
        {"path": "$.a", "exists": False, "equals": 1},
        {"path": ""},
    ],
)
def test_a_query_that_cannot_be_meant_is_refused_before_anything_runs(options):
    with pytest.raises(ValidationError):
        ASSERTIONS["json_path"].Options.model_validate(options)
