"""What agents tell, in recorded words: events in order, answers at their calls, usage, and no faith in any of it."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mst.agents.claude_code import read_stream
from mst.agents.codex import read_events, settings
from mst.agents.mini_swe_agent import read_trajectory


def lines(*values):
    return b"\n".join(json.dumps(value).encode() for value in values)


def said(*parts, role="assistant"):
    return {"type": role, "message": {"role": role, "content": list(parts)}}


def use(name, number, **given_):
    return {"type": "tool_use", "id": number, "name": name, "input": given_}


def result_of(number, content, **more):
    return {"type": "tool_result", "tool_use_id": number, "content": content, **more}


def test_claude_s_tools_become_events_of_their_kinds():
    output = lines(
        {"type": "system", "subtype": "init"},
        said({"type": "text", "text": "Let me see."}, use("Bash", "1", command="ls")),
        said(result_of("1", [{"type": "text", "text": "a.txt"}]), role="user"),
        said(use("mcp__menu__price", "2", dish="soup"), use("Skill", "3", skill="make-menu")),
        said(result_of("2", "no such dish", is_error=True), role="user"),
        said(
            use("Task", "4", subagent_type="Explore"), use("ToolSearch", "5", query="menu"), use("Read", "6", file="a")
        ),
        {
            "type": "result",
            "subtype": "success",
            "result": "Done.",
            "num_turns": 3,
            "total_cost_usd": 0.25,
            "usage": {"input_tokens": 7, "output_tokens": 5, "cache_read_input_tokens": 1},
        },
    )
    transcript, unused = read_stream(output)
    assert unused == 0
    kinds = [(event.kind, event.name, event.server) for event in transcript.events]
    assert kinds == [
        ("message", "assistant", None),
        ("command", "ls", None),
        ("tool_call", "price", "menu"),
        ("skill", "make-menu", None),
        ("subagent", "Explore", None),
        ("tool_search", "menu", None),
        ("tool_call", "Read", None),
    ]
    assert (transcript.events[1].output, transcript.events[1].is_error) == ("a.txt", False)
    assert (transcript.events[2].output, transcript.events[2].is_error) == ("no such dish", True)
    assert transcript.events[3].output is None
    assert (transcript.final_text, transcript.evidence) == ("Done.", "observed")
    usage = transcript.usage
    assert (usage.input_tokens, usage.output_tokens, usage.turns, usage.total_cost_usd) == (7, 5, 3, 0.25)
    assert usage.cache_creation_input_tokens is None, "what is not said is not zero"


def test_claude_cut_in_the_middle_keeps_what_it_said():
    output = lines(said({"type": "text", "text": "First."}, use("Bash", "1", command="make"))) + b'\n{"type": "ass'
    transcript, unused = read_stream(output)
    assert unused == 1
    assert (transcript.final_text, transcript.usage) == ("First.", None)


def test_claude_s_own_failure_is_an_error_of_the_transcript():
    transcript, _ = read_stream(lines({"type": "result", "subtype": "error_max_turns", "is_error": True}))
    assert "error_max_turns" in transcript.error


def test_codex_items_are_told_once_as_they_ended():
    command = {"id": "i1", "type": "command_execution", "command": "ls", "status": "in_progress", "exit_code": None}
    call = {"id": "i2", "type": "mcp_tool_call", "server": "menu", "tool": "price", "arguments": {"dish": "soup"}}
    output = lines(
        {"type": "thread.started"},
        {"type": "item.started", "item": command},
        {"type": "item.completed", "item": {**command, "exit_code": 2, "aggregated_output": "no", "status": "failed"}},
        {
            "type": "item.completed",
            "item": {**call, "status": "completed", "result": {"content": [{"type": "text", "text": "7"}]}},
        },
        {"type": "item.completed", "item": {**call, "id": "i3", "status": "failed", "error": {"message": "gone"}}},
        {"type": "item.completed", "item": {"id": "i4", "type": "agent_message", "text": "Done."}},
        {"type": "turn.completed", "usage": {"input_tokens": 5, "output_tokens": 2}},
        {"type": "turn.completed", "usage": {"input_tokens": 6, "output_tokens": 3}},
    )
    transcript, unused = read_events(output)
    assert unused == 0
    assert [(event.kind, event.output, event.is_error) for event in transcript.events] == [
        ("command", "no", True),
        ("tool_call", "7", False),
        ("tool_call", "gone", True),
        ("message", "Done.", None),
    ]
    assert (transcript.usage.input_tokens, transcript.usage.output_tokens) == (11, 5)
    assert transcript.usage.reasoning_output_tokens is None


def test_codex_that_fails_says_why():
    transcript, _ = read_events(lines({"type": "turn.failed", "error": {"message": "bad key"}}))
    assert transcript.error == "bad key"


def test_a_trajectory_that_is_none_is_told_as_unused():
    for data in (b"", b"[1]", b"{}", b'{"messages": 3, "info": {}}', b"[" * 100_000):
        transcript, unused = read_trajectory(data)
        assert unused == 1
        assert transcript.events == []


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(
        ["type", "message", "content", "id", "item", "usage", "result", "messages", "info", "role", "extra", "name",
         "input", "tool_use_id", "error", "status", "text", "input_tokens", "actions", "command"]), inner, max_size=4),
    max_leaves=15,
)  # fmt: skip
KINDS = st.sampled_from(["assistant", "user", "result", "item.completed", "turn.completed", "turn.failed", "error"])


@pytest.mark.parametrize("read", [read_stream, read_events])
@given(st.lists(st.tuples(KINDS, JSON), max_size=4))
def test_no_words_of_an_agent_break_its_reader(read, told):
    values = [{**value, "type": kind} if isinstance(value, dict) else value for kind, value in told]
    values += [{"type": kind, "message": value, "item": value, "usage": value} for kind, value in told]
    read(lines(*values))


@given(JSON, JSON)
def test_no_trajectory_breaks_its_reader(messages, info):
    read_trajectory(json.dumps({"messages": messages, "info": info}).encode())


def test_settings_of_codex_are_toml_whatever_a_server_is_called():
    import tomllib
    from pathlib import Path

    from mst.agents.contract import Given, StdioServer
    from mst.model.case import TrialLimits

    server = StdioServer(argv=["run me", 'a"b', "c\\d"], env={"A B": 'x"\n'})
    given_ = Given(
        prompt="",
        model=None,
        url="http://x",
        key="k",
        home=Path("/h"),
        servers={'o"dd.x': server},
        limits=TrialLimits(),
    )
    found = tomllib.loads(settings(given_))
    assert found["mcp_servers"]['o"dd.x']["args"] == ['a"b', "c\\d"]
    assert found["mcp_servers"]['o"dd.x']["env"] == {"A B": 'x"\n'}
    assert "k" not in found["model_providers"]["mst"].values()
