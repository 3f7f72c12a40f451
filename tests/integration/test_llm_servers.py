"""The llm client with published MCP servers: their tools are offered, called and told, in every dialect and runner."""

from __future__ import annotations

import json

import pytest

from mst.clients.llm import Llm
from mst.model.case import Case, Variant
from mst.testing.client import trial_records
from mst.testing.commandline import run_mst
from mst.testing.mcpserver import everything_server, mcp_server_at
from mst.testing.modelscript import Reply, ToolUse, turns
from mst.testing.modelserver import model_server
from mst.testing.servers import need_program

pytestmark = [pytest.mark.server, pytest.mark.timeout(300)]
SETUP = [["git", "init", "-q", "-b", "main"], ["sh", "-c", "echo one > a.txt"]]
TIME = ToolUse("convert_time", {"source_timezone": "Etc/UTC", "time": "12:00", "target_timezone": "Asia/Tokyo"})


def collect(tmp_path, variant, prompt="go", setup=()):
    case = Case(id="c", dataset="d", input=prompt, setup=list(setup))
    (record,) = trial_records(Llm, variant, [case], tmp_path, secrets={"K": "k-0123456789"})
    return record


def variant(server, servers, dialect="openai", **more):
    url = server.openai_url if dialect == "openai" else server.url
    options = {"provider": dialect, "base_url": url, "key": {"secret": "K"}, **more.pop("options", {})}
    return Variant(name="v", client="llm", model="m", client_options=options, servers=servers, **more)


def git_and_time():
    need_program("mcp-server-git", "mcp-server-git")
    need_program("mcp-server-time", "mcp-server-time")
    return {"git": {"command": "mcp-server-git"}, "time": {"command": "mcp-server-time"}}


@pytest.mark.parametrize("dialect", ["openai", "anthropic", "google"])
def test_two_servers_are_used_in_one_conversation(tmp_path, dialect):
    script = turns(
        Reply(text="First the time.", tools=[TIME, ToolUse("git_status", {"repo_path": "."})]),
        Reply(tools=[ToolUse("git_add", {"repo_path": ".", "files": ["a.txt"]}), ToolUse("git_log", {"repo_path": 7})]),
        Reply(text="Staged."),
    )
    with model_server(script) as server:
        record = collect(tmp_path, variant(server, git_and_time(), dialect), setup=SETUP)
    assert record.status == "completed", record
    calls = [event for event in record.transcript.events if event.kind == "tool_call"]
    assert [(call.server, call.name, call.is_error) for call in calls] == [
        ("time", "convert_time", False),
        ("git", "git_status", False),
        ("git", "git_add", False),
        ("git", "git_log", True),
    ]
    assert "21:00" in calls[0].output
    assert "a.txt" in calls[1].output
    assert [event.kind for event in record.transcript.events] == ["message", *["tool_call"] * 4, "message"]
    assert record.transcript.usage.turns == 3
    first, second, third = server.calls
    assert {"convert_time", "git_status", "git_add"} <= set(first.tools)
    assert any("21:00" in result for result in second.results)
    assert len(second.results) == len(third.results) == 2


@pytest.mark.parametrize("arguments", ['{"repo_path": ', "[]"])
def test_arguments_that_cannot_be_read_are_told_to_the_model(tmp_path, arguments):
    script = turns(Reply(tools=[ToolUse("git_status", arguments)]), Reply(text="Sorry."))
    with model_server(script) as server:
        record = collect(tmp_path, variant(server, {"git": git_and_time()["git"]}), setup=SETUP)
    assert record.transcript.final_text == "Sorry."
    (call,) = [event for event in record.transcript.events if event.kind == "tool_call"]
    assert (call.name, call.server, call.is_error) == ("git_status", "git", True)
    assert "arguments" in call.output
    assert "arguments" in server.calls[1].results[0]


def test_a_variant_changes_what_the_model_reads_of_a_tool(tmp_path):
    with model_server(Reply(text="ok")) as server:
        asked = variant(
            server,
            git_and_time(),
            tools={"git_status": "Says how things stand.", "time.convert_time": {"description": "Reckons."}},
            options={"only_tools": ["git_status", "convert_time"]},
        )
        record = collect(tmp_path, asked, setup=SETUP)
        wrong = collect(tmp_path, asked.model_copy(update={"tools": {"git_stats": "x"}}), setup=SETUP)
    offered = {tool["function"]["name"]: tool["function"]["description"] for tool in server.calls[0].body["tools"]}
    assert offered == {"git_status": "Says how things stand.", "convert_time": "Reckons."}
    assert record.client_metadata["tools"] == ["git_status", "convert_time"]
    assert wrong.error_kind == "harness"
    assert "no server has a tool 'git_stats'" in wrong.error


def test_a_server_that_dies_leaves_nothing_to_grade(tmp_path):
    with mcp_server_at(tmp_path) as far, model_server(turns(Reply(tools=[ToolUse("die")]), Reply(text="x"))) as server:
        record = collect(tmp_path, variant(server, {"far": {"url": far.url}}))
    assert (record.error_kind, record.transcript) == ("environment", None)
    assert "server far ended during die" in record.error


def test_a_tool_that_hangs_ends_at_the_time_limit(tmp_path):
    with mcp_server_at(tmp_path) as far, model_server(Reply(tools=[ToolUse("hang")])) as server:
        asked = variant(server, {"far": {"url": far.url}}, trial_limits={"time_s": 3})
        record = collect(tmp_path, asked)
    assert (record.status, record.limit_hit) == ("completed", "timeout")
    (call,) = record.transcript.events
    assert (call.name, call.output, call.is_error) == ("hang", None, None)


def test_a_long_output_is_shown_in_part_and_kept_whole(tmp_path):
    script = turns(Reply(tools=[ToolUse("flood", {"size": 5000})]), Reply(text="much"))
    with mcp_server_at(tmp_path) as far, model_server(script) as server:
        asked = variant(server, {"far": {"url": far.url}}, options={"max_tool_output": 100})
        record = collect(tmp_path, asked)
    assert len(record.transcript.events[0].output) == 5000
    assert server.calls[1].results[0].endswith("[4900 more characters were left out]")


@pytest.mark.slow
@pytest.mark.parametrize("way", ["stdio", "http"])
def test_the_protocols_reference_server_is_used_over_both_transports(tmp_path, way):
    program = everything_server()
    script = turns(Reply(tools=[ToolUse("get-sum", {"a": 2, "b": 3})]), Reply(text="5"))
    with model_server(script) as server:
        if way == "stdio":
            record = collect(tmp_path, variant(server, {"all": {"command": program, "args": ["stdio"]}}))
        else:
            with mcp_server_at(tmp_path, argv=[program, "streamableHttp"]) as far:
                record = collect(tmp_path, variant(server, {"all": {"url": far.url}}))
    assert record.status == "completed", record
    assert "5" in record.transcript.events[0].output
    assert "get-sum" in server.calls[0].tools


CONFIG = """
name: clocks
datasets: [{{file: cases.jsonl}}]
client: llm
model: m
client_options: {{base_url: "{url}", key: {{secret: K}}, rate_limit: gate}}
rate_limits: {{providers: {{gate: {{concurrent: 1}}}}}}
pricing: {{m: {{input: 1, output: 2}}}}
servers: {{time: {{command: mcp-server-time}}}}
assertions:
  - contains_text: "21:00"
  - tools_triggered: [{{name: convert_time, server: time}}]
variants:
  - {{name: plain}}
  - {{name: told, tools: {{convert_time: Reckons a time.}}}}
"""


@pytest.mark.parametrize("runner", ["local", "process"])
def test_an_eval_runs_with_every_runner_under_one_limit(tmp_path, runner):
    git_and_time()
    script = turns(Reply(tools=[TIME]), Reply(text="It is 21:00.", stall_s=0.05))
    (tmp_path / "cases.jsonl").write_text("".join(json.dumps({"id": f"c{n}", "input": "?"}) + "\n" for n in range(2)))
    (tmp_path / "secrets").write_text("K=k-0123456789\n")
    with model_server(script) as server:
        (tmp_path / "eval.yaml").write_text(CONFIG.format(url=server.openai_url))
        shards = ["--runner-option", "shards=2"] if runner == "process" else []
        done = run_mst(
            "run", "eval.yaml", "--runner", runner, *shards, "--secrets-file", "secrets", "--no-probe", cwd=tmp_path
        )
    assert done.code == 0, done
    assert "nothing acts on it yet" not in done.err
    assert server.statuses == {200: 8}
    assert server.most_at_once == 1
    (summary,) = tmp_path.glob(".mst-results/clocks/runs/*/summary.json")
    found = json.loads(summary.read_text())
    assert [variant["result"]["passed"] for variant in found["variants"]] == [2, 2]
    assert "k-0123456789" not in "".join(path.read_text() for path in tmp_path.glob(".mst-results/**/*.json"))
