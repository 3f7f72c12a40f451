from __future__ import annotations

import pytest
from pydantic import ValidationError

from mst.errors import GraderError
from mst.grade.assertions import ASSERTIONS
from mst.testing.judge import make_subject

JSON_SCHEMA = ASSERTIONS["json_schema"]


@pytest.fixture
def grade(tmp_path):
    def run(schema: dict, text: str):
        return JSON_SCHEMA.grade(
            make_subject(tmp_path, text=text), JSON_SCHEMA.Options.model_validate({"schema": schema})
        )

    return run


def test_a_valid_answer_passes_and_faults_are_named_by_place(grade):
    schema = {"type": "object", "required": ["n"], "properties": {"n": {"type": "integer"}}}
    assert grade(schema, '{"n": 1}').passed
    score = grade(schema, '{"n": "one"}')
    assert not score.passed
    assert score.details.startswith("$.n: ")


@pytest.mark.parametrize("text", ["", "not json", '{"a": 1} trailing', "[" * 100_000])
def test_what_is_not_json_fails(grade, text):
    score = grade({}, text)
    assert not score.passed
    assert score.details.startswith("is not JSON")


def test_a_remote_reference_is_never_fetched(grade):
    with pytest.raises(GraderError, match="stay inside the schema"):
        grade({"$ref": "http://127.0.0.1:1/schema.json"}, "{}")


def test_references_inside_the_schema_work(grade):
    schema = {"$defs": {"n": {"type": "integer"}}, "items": {"$ref": "#/$defs/n"}}
    assert grade(schema, "[1, 2]").passed
    assert not grade(schema, '["x"]').passed


@pytest.mark.parametrize(
    "schema",
    [
        {"pattern": r"^(a|aa)+$"},
        {"additionalProperties": False, "patternProperties": {r"^(a|aa)+$": {}}},
    ],
)
def test_patterns_that_explode_are_grading_errors(grade, schema):
    text = "a" * 80 + "b"
    with pytest.raises(GraderError, match="patterns took longer than 1 s"):
        grade(schema, f'{{"{text}": 1}}' if "patternProperties" in schema else f'"{text}"')


def test_pattern_keywords_mean_what_they_say(grade):
    schema = {
        "properties": {"id": {"pattern": "^x"}},
        "patternProperties": {"^n_": {"type": "number"}},
        "additionalProperties": False,
    }
    assert grade(schema, '{"id": "x1", "n_a": 1}').passed
    assert not grade(schema, '{"id": "y1"}').passed
    assert not grade(schema, '{"n_a": "text"}').passed
    assert "unexpected" in grade(schema, '{"other": 1}').details
    assert grade({"additionalProperties": {"type": "number"}}, '{"a": 1}').passed
    assert not grade({"additionalProperties": {"type": "number"}}, '{"a": "x"}').passed


@pytest.mark.parametrize(
    "schema",
    [
        {"type": "no-such-type"},
        {"unevaluatedProperties": False, "allOf": [{"patternProperties": {"a": {}}}]},
        "text",
    ],
)
def test_schemas_that_cannot_be_used_are_refused(schema):
    with pytest.raises(ValidationError):
        JSON_SCHEMA.Options.model_validate({"schema": schema})


def test_many_faults_are_counted(grade):
    assert "and 5 more" in grade({"items": {"type": "string"}}, "[1,2,3,4,5,6,7,8,9,10]").details
