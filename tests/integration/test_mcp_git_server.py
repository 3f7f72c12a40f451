"""The mcp client on a real published server, and on servers that die."""

from __future__ import annotations

import asyncio
import importlib.util
import os
import shutil

import pytest

from mst.clients.mcp import Mcp
from mst.collect.context import RunContext
from mst.collect.trial import collect_trial
from mst.config.files import IndexedFiles
from mst.model.case import Case, StageTimeouts, TrialLimits, Variant
from mst.process.redact import Redactor
from mst.testing.client import descendants, wait_for_no_more_than

COMMIT = ["git", "-c", "user.name=n", "-c", "user.email=n@example.org", "commit", "-q", "-m", "first"]
SETUP = [["git", "init", "-q", "-b", "main"], ["sh", "-c", "echo one > a.txt"], ["git", "add", "."], COMMIT]

FRAGILE = """
import os, sys, time
from mcp.server.mcpserver import MCPServer

server = MCPServer("fragile")

@server.tool()
def die() -> str:
    sys.stderr.write("last words\\n"); sys.stderr.flush()
    os._exit(3)

@server.tool()
def pid() -> str:
    return str(os.getpid())

@server.tool()
def flood() -> str:
    return "x" * 3_000_000

@server.tool()
def noise() -> str:
    os.write(1, b"not json at all\\n")
    return "fine"

@server.tool()
def cwd() -> str:
    return os.getcwd()

server.run()
"""


def need(program=None):
    missing = None
    if importlib.util.find_spec("mcp") is None:
        missing = "pip install 'mst[mcp]'"
    elif program is not None and shutil.which(program) is None and not _beside(program):
        missing = f"{program} is not installed"
    if missing and os.environ.get("CI"):
        pytest.fail(missing)
    if missing:
        pytest.skip(missing)


def _beside(program):
    from mst.process.environment import program_fault

    return program_fault(program) is None


def collect(tmp_path, variant, *inputs, files=None, setup=(), client=None):
    async def go():
        made = client or Mcp(variant)
        try:
            return [
                (
                    await collect_trial(
                        Case(id=f"c{number}", dataset="d", input=given, setup=list(setup)),
                        variant,
                        0,
                        client=made,
                        context=RunContext(
                            run_id="20260101T000000Z-abcdef",
                            files=files or IndexedFiles(),
                            secrets={},
                            redactor=Redactor(()),
                            scratch_root=tmp_path,
                            timeouts=StageTimeouts(),
                        ),
                    )
                ).record
                for number, given in enumerate(inputs)
            ]
        finally:
            await made.close()

    before = descendants()
    found = asyncio.run(go())
    wait_for_no_more_than(before)
    return found


@pytest.fixture
def fragile(tmp_path):
    need()
    config = tmp_path / "config"
    config.mkdir()
    (config / "fragile.py").write_text(FRAGILE)
    files = IndexedFiles()
    ref = files.add(config, "fragile.py").to_dict()

    def variant(lifetime="trial", **changes):
        return Variant(
            name="v",
            client="mcp",
            client_options={"files": [ref], "server_lifetime": lifetime},
            servers={"f": {"command": "{{python}}", "args": ["fragile.py"]}},
            **changes,
        )

    return variant, files


def test_calls_reach_a_real_git_server_and_its_errors_are_answers(tmp_path):
    need("mcp-server-git")
    variant = Variant(name="git", client="mcp", servers={"git": {"command": "mcp-server-git"}})
    where = {"repo_path": "{{workspace}}"}
    [record] = collect(
        tmp_path,
        variant,
        {
            "calls": [
                {"tool": "git_status", "arguments": where},
                {"tool": "git_log", "arguments": {**where, "max_count": 1}},
                {"tool": "git_status", "arguments": {"repo_path": "/no/such/place"}},
                {"tool": "no_such_tool"},
                {"tool": "git_create_branch", "arguments": {**where, "branch_name": "feature"}},
            ]
        },
        setup=SETUP,
    )
    assert record.status == "completed", record.error
    assert record.transcript_evidence == "structured"
    events = record.transcript.events
    assert [(event.name, event.is_error) for event in events] == [
        ("git_status", False),
        ("git_log", False),
        ("git_status", True),
        ("no_such_tool", True),
        ("git_create_branch", False),
    ]
    assert "On branch main" in events[0].output
    assert "first" in events[1].output
    assert {event.server for event in events} == {"git"}
    assert all(event.source == "mcp" and event.duration_ms > 0 for event in events)
    assert record.transcript.final_text == events[-1].output
    assert record.diff == ""
    assert ".git/refs/heads/feature" in [file.path for file in record.artifact_files]


def test_a_server_that_dies_is_the_environments_fault_with_its_last_words(tmp_path, fragile):
    variant, files = fragile
    [record] = collect(tmp_path, variant(), {"tool": "die"}, files=files)
    assert (record.status, record.error_kind, record.infrastructure_error) == ("error", "environment", True)
    assert "server f ended during die" in record.error
    assert "last words" in record.error


def test_a_shared_server_lives_on_and_is_started_again_when_it_died(tmp_path, fragile):
    variant, files = fragile
    inputs = [{"tool": "pid"}, {"tool": "pid"}, {"tool": "die"}, {"tool": "pid"}]
    first, second, died, after = collect(tmp_path, variant("shard"), *inputs, files=files)
    assert first.transcript.final_text == second.transcript.final_text
    assert died.error_kind == "environment"
    assert after.status == "completed"
    assert after.transcript.final_text != first.transcript.final_text


def test_a_message_over_the_output_limit_ends_the_server_not_us(tmp_path, fragile):
    variant, files = fragile
    limits = TrialLimits(output_bytes=1_000_000)
    [record] = collect(tmp_path, variant(trial_limits=limits), {"tool": "flood"}, files=files)
    assert record.error_kind == "environment"
    assert "more than 1000000 bytes" in record.error


def test_stray_output_of_a_server_is_skipped(tmp_path, fragile):
    variant, files = fragile
    [record] = collect(tmp_path, variant(), {"tool": "noise"}, files=files)
    assert record.transcript.final_text == "fine"


def test_a_server_works_in_the_workspace(tmp_path, fragile):
    variant, files = fragile
    [record] = collect(tmp_path, variant(), {"tool": "cwd"}, files=files)
    assert record.transcript.final_text.endswith("/workspace")


@pytest.mark.parametrize("command", [["sh", "-c", "echo dying >&2; exit 1"], ["cat"], ["no-such-server-program"]])
def test_what_is_no_server_is_told(tmp_path, command, monkeypatch):
    need()
    monkeypatch.setattr("mst.clients.mcp_servers.START_S", 1.0)
    variant = Variant(name="v", client="mcp", servers={"x": {"command": command[0], "args": command[1:]}})
    [record] = collect(tmp_path, variant, {"tool": "t"})
    assert (record.status, record.error_kind) == ("error", "environment")
    assert "server x:" in record.error
