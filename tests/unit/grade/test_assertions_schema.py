from __future__ import annotations

import json
import time

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
        {"$schema": 5},
        "text",
    ],
)
def test_schemas_that_cannot_be_used_are_refused(schema):
    with pytest.raises(ValidationError):
        JSON_SCHEMA.Options.model_validate({"schema": schema})


@pytest.mark.parametrize("answer", ["NaN", "[Infinity]", '{"a": -Infinity}', "1e400", "1" + "0" * 5000])
def test_what_python_reads_and_json_does_not_know_is_no_json(grade, answer):
    assert "is not JSON" in grade({}, answer).details


@pytest.mark.parametrize("answer", ["1" + "0" * 400, "[" * 300 + "]" * 300])
def test_an_answer_that_cannot_be_checked_fails_and_is_not_left_out_of_the_rate(grade, answer):
    endless = {"$defs": {"a": {"items": {"$ref": "#/$defs/a"}, "multipleOf": 0.1}}, "$ref": "#/$defs/a"}
    assert "to be checked" in grade(endless, answer).details


@pytest.mark.filterwarnings("ignore")  # the library's own about fetching, were it to begin
def test_a_reference_to_the_network_is_not_followed(grade, monkeypatch):
    asked = []
    monkeypatch.setattr("urllib.request.urlopen", lambda request, *_, **__: asked.append(request))
    with pytest.raises(GraderError, match="must stay inside the schema"):
        grade({"$ref": "http://127.0.0.1:9/x"}, "1")
    assert asked == []


def test_a_schema_that_refers_to_itself_is_no_fault_of_the_answer(grade):
    with pytest.raises(GraderError, match="refers to itself"):
        grade({"$ref": "#"}, "1")


def test_a_schema_that_would_take_for_ever_comes_to_an_end(grade, monkeypatch):
    monkeypatch.setattr("mst.grade.assertions.schema.VALIDATION_TIMEOUT_S", 0.1)
    doubled = {f"a{level}": {"allOf": [{"$ref": f"#/$defs/a{level + 1}"}] * 2} for level in range(40)}
    with pytest.raises(GraderError, match="make the schema simpler"):
        grade({"$defs": {**doubled, "a40": {}}, "$ref": "#/$defs/a0"}, "1")


@pytest.mark.parametrize(
    ("items", "unique"),
    [
        ("[1, 1.0]", False),
        ("[1, true]", True),
        ('[0, false, null, ""]', True),
        ('[{"a": 1, "b": [2]}, {"b": [2.0], "a": 1}]', False),
        ('[{"a": []}, {"a": {}}]', True),
        ("[[1, 2], [2, 1]]", True),
    ],
)
def test_unique_items_are_told_apart_by_value(grade, items, unique):
    assert grade({"uniqueItems": True}, items).passed is unique
    assert grade({"uniqueItems": False}, items).passed


def test_many_unique_items_take_no_quadratic_time(grade):
    started = time.process_time()
    assert grade({"uniqueItems": True}, json.dumps([{"a": number} for number in range(20_000)])).passed
    assert time.process_time() - started < 10


def test_many_faults_are_counted(grade):
    assert "and 5 more" in grade({"items": {"type": "string"}}, "[1,2,3,4,5,6,7,8,9,10]").details
