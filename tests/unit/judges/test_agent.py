from __future__ import annotations

import pytest
from pydantic import ValidationError

from mst.errors import ConfigError, GraderError
from mst.judges.agent import Agent, AgentOptions, agent_secrets
from mst.judges.agenttask import last_object, task_for_one, task_for_two
from mst.judges.answers import compared_schema, scored_schema
from mst.judges.rubrics import RUBRICS
from mst.model.case import GraderSpec


@pytest.mark.parametrize(
    "text",
    [
        '{"a": 1}',
        '\n{\n "a": 1\n}\n',
        'Words.\n{"b": 2}\nMore.\n{"a": 1}',
        'Words.\n```json\n{"b": 2}\n```\nMore.\n```\n{\n"a": 1\n}\n```\n',
    ],
)
def test_the_last_object_is_the_verdict(text):
    assert last_object(text) == {"a": 1}


@pytest.mark.parametrize("text", ["", "fine", '{"a": 1}\nI am done.', "[1]", '{"a": NaN}', "{"])
def test_anything_after_it_or_anything_else_is_no_verdict(text):
    with pytest.raises(GraderError, match="no JSON object") as raised:
        last_object(text)
    assert raised.value.kind == "answer"


def test_tasks_say_what_lies_there_and_what_to_answer():
    options = "correctness"
    assert RUBRICS["correctness"] in task_for_one(options, criteria=0)
    assert '{"reasoning": "what decided", "score": 0 to 1}' in task_for_one(options, criteria=0)
    assert '"sub_scores": {"1"' in task_for_one(options, criteria=2)
    two = task_for_two(options, {"style": "", "depth": "how deep"})
    assert "style; depth (how deep)" in two
    assert '"preference": "first", "second" or "tie"' in two


def test_braces_of_a_rubric_are_left_alone():
    assert "use {this} and {{that}}" in task_for_one("use {this} and {{that}}", criteria=0)


def test_a_sandbox_that_cannot_be_is_refused_by_name():
    options = AgentOptions(argv=["x"], sandbox={"kind": "none", "network": "none"})
    with pytest.raises(ConfigError, match="q: sandbox"):
        Agent(GraderSpec(type="agentic", name="q"), options)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({}, "'argv' is missing"),
        ({"argv": ["x"], "max_turns": 3}, "max_turns: only for runtimes other than 'command'"),
        ({"runtime": "codex", "argv": ["x"]}, "'argv' is for runtime 'command'"),
        ({"runtime": "mini-swe-agent"}, "'model' is missing"),
        ({"runtime": "other"}, "runtime"),
    ],
)
def test_options_that_do_not_go_together_are_refused(options, said):
    with pytest.raises(ValidationError, match=said):
        AgentOptions(**options)


def test_a_known_agent_asks_for_its_providers_key():
    assert agent_secrets({"argv": ["x"]}) == []
    assert agent_secrets({"runtime": "claude-code"}) == ["ANTHROPIC_API_KEY"]
    assert agent_secrets({"runtime": "codex", "api_key": "JUDGE_KEY"}) == ["JUDGE_KEY"]


def test_schemas_of_answers_are_strict_all_the_way_down():
    def objects(value):
        if isinstance(value, dict):
            if value.get("type") == "object":
                yield value
            for item in value.values():
                yield from objects(item)

    found = [*objects(scored_schema(2)), *objects(compared_schema(["style"]))]
    assert len(found) == 7
    for schema in found:
        assert schema["required"] == list(schema["properties"])
        assert schema["additionalProperties"] is False
