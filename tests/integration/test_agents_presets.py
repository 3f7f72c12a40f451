"""The three agents for real, against a model on loopback that answers by script, with and without a sandbox."""

from __future__ import annotations

import asyncio
import os
import shutil
import sys

import pytest

from mst.collect.context import RunContext
from mst.collect.loop import client_of
from mst.collect.trial import collect_trial
from mst.config.files import IndexedFiles
from mst.model.case import Case, StageTimeouts, TrialLimits, Variant
from mst.process.redact import Redactor
from mst.testing.agentmodel import INPUT_TOKENS, OUTPUT_TOKENS, ToolUse, Turn, agent_model, steps
from mst.testing.agents import AGENTS, CACHE, KEYS, MODELS, bash, ending, install_agents, program
from mst.testing.client import descendants, wait_for_no_more_than
from mst.testing.engine import IMAGE

pytestmark = [pytest.mark.slow, pytest.mark.server, pytest.mark.timeout(600)]

KEY = "the-real-key-0123456789abcdef"
# Standard library alone: in Docker it runs in an image without the SDK.
PLAIN_SERVER = """
import json, os, sys
tool = {"name": "price", "inputSchema": {"type": "object", "properties": {"dish": {"type": "string"}}}}
for line in sys.stdin:
    asked = json.loads(line)
    if "id" not in asked:
        continue
    given = asked.get("params", {})
    answers = {
        "initialize": {
            "protocolVersion": given.get("protocolVersion"), "capabilities": {"tools": {}},
            "serverInfo": {"name": "menu", "version": "1"},
        },
        "tools/list": {"tools": [tool]},
        "tools/call": {"content": [{"type": "text", "text": f"{given.get('arguments', {}).get('dish')} costs 7"}]},
    }
    print(json.dumps({"jsonrpc": "2.0", "id": asked["id"], "result": answers.get(asked["method"], {})}), flush=True)
"""
DOCKER = pytest.param("docker", marks=[pytest.mark.long, pytest.mark.timeout(1800)])
SERVER = """
from mcp.server.mcpserver import MCPServer
server = MCPServer("menu")
@server.tool()
def price(dish: str) -> str:
    return f"{dish} costs 7"
server.run("stdio")
"""


@pytest.fixture(scope="module", autouse=True)
def _agents():
    install_agents()


def worker(name):
    """A behaviour that does the work: it looks, then edits."""
    return steps(
        Turn(text="I look first.", tools=[bash(name, "cat menu.txt; env > seen-env.txt; ls missing")]),
        Turn(tools=[bash(name, "sed -i s/soup/stew/ menu.txt && echo edited")]),
        ending(name),
    )


def idler(name):
    """A behaviour that only says that it did."""
    return steps(ending(name))


def sandbox_of(kind):
    base = sys.base_prefix
    return {
        "none": {"kind": "none"},
        "bwrap": {"kind": "bwrap", "read": [str(CACHE), base]},
        "docker": {"kind": "docker", "image": "mst-test-agents"},
    }[kind]


def collect(root, model, name, sandbox="none", *, limits=None, servers=None, options=None):
    if sandbox == "bwrap" and shutil.which("bwrap") is None:
        (pytest.fail if os.environ.get("CI") else pytest.skip)("bubblewrap is not installed")
    source = root / "source"
    source.mkdir()
    (source / "menu.txt").write_text("soup\n")
    files = IndexedFiles()
    case = Case(id="c", dataset="d", input="Change soup to stew.", fixture=[files.add(source, "menu.txt")])
    variant = Variant(
        name="v",
        client=name,
        model=MODELS[name],
        client_options={
            **({} if sandbox == "docker" else {"program": program(name)}),
            "base_url": model.url,
            **(options or {}),
        },
        sandbox=sandbox_of(sandbox),
        servers=servers or {},
        trial_limits=limits or TrialLimits(time_s=120),
    )
    (root / "scratch").mkdir()
    client = client_of(variant)
    assert client.preflight() == []
    assert client.secrets_needed() == [KEYS[name]]
    before = descendants()
    collected = asyncio.run(
        collect_trial(
            case,
            variant,
            0,
            client=client,
            context=RunContext(
                run_id="20260101T000000Z-abcdef",
                files=files,
                secrets={KEYS[name]: KEY},
                redactor=Redactor({KEYS[name]: KEY}.values()),
                scratch_root=root / "scratch",
                timeouts=StageTimeouts(),
            ),
        )
    )
    wait_for_no_more_than(before)
    return collected


@pytest.fixture
def sandbox(request):
    """A kind of sandbox that is ready."""
    if request.param == "docker":
        request.getfixturevalue("built_images")("agents")
    return request.param


@pytest.mark.parametrize("sandbox", ["none", "bwrap", DOCKER], indirect=True)
@pytest.mark.parametrize("name", AGENTS)
def test_what_the_model_asks_for_is_done_and_told(tmp_path, name, sandbox):
    with agent_model(worker(name), key=KEY) as model:
        collected = collect(tmp_path, model, name, sandbox)
    record = collected.record
    assert (record.status, record.error_kind, record.limit_hit) == ("completed", None, None), record
    assert (collected.artifacts / "menu.txt").read_text() == "stew\n"
    assert "-soup" in record.diff
    assert "+stew" in record.diff
    transcript = record.transcript
    assert record.transcript_evidence == "observed"
    commands = [event for event in transcript.events if event.kind == "command"]
    assert ["cat menu.txt" in commands[0].name, "sed -i" in commands[1].name] == [True, True]
    assert "soup" in str(commands[0].output)
    assert [commands[0].is_error, commands[1].is_error] == [True, False]
    assert transcript.events[0].kind == "message"
    assert transcript.events[0].output == "I look first."
    if name != "mini-swe-agent":
        assert transcript.final_text == "All done."
    assert transcript.usage.input_tokens == 3 * INPUT_TOKENS
    assert transcript.usage.output_tokens == 3 * OUTPUT_TOKENS
    assert {asked.key for asked in model.asked} == {KEY}
    # The key was nowhere near the agent: nothing had to be taken out of what it left.
    seen = (collected.artifacts / "seen-env.txt").read_text()
    assert KEY not in seen
    assert "[redacted]" not in seen
    assert "redactedFiles" not in str(record.client_diagnostics)


@pytest.mark.parametrize("name", AGENTS)
def test_one_that_only_talks_leaves_nothing(tmp_path, name):
    with agent_model(idler(name), key=KEY) as model:
        record = collect(tmp_path, model, name, "bwrap").record
    assert record.status == "completed"
    assert record.diff == ""


@pytest.mark.parametrize("name", AGENTS)
def test_a_limit_of_turns_ends_it_and_what_it_left_is_kept(tmp_path, name):
    endless = steps(Turn(text="Again.", tools=[bash(name, "echo x >> menu.txt")]))
    with agent_model(endless, key=KEY) as model:
        collected = collect(tmp_path, model, name, limits=TrialLimits(time_s=120, turns=3))
    record = collected.record
    assert (record.status, record.limit_hit) == ("completed", "turns"), record
    assert len(model.asked) == 3
    assert (collected.artifacts / "menu.txt").read_text().startswith("soup\nx\n")


@pytest.mark.parametrize("name", AGENTS)
def test_a_limit_of_tokens_ends_it(tmp_path, name):
    endless = steps(Turn(text="Again.", tools=[bash(name, "echo x >> menu.txt")]))
    limit = 2 * (INPUT_TOKENS + OUTPUT_TOKENS)
    with agent_model(endless, key=KEY) as model:
        record = collect(tmp_path, model, name, limits=TrialLimits(time_s=120, tokens=limit)).record
    assert (record.status, record.limit_hit) == ("completed", "tokens"), record
    assert len(model.asked) <= 3


@pytest.mark.parametrize("name", AGENTS)
def test_a_time_limit_ends_it_in_the_middle(tmp_path, name):
    slow = steps(Turn(text="One.", tools=[bash(name, "echo x >> menu.txt")]), Turn(text="Late.", stall_s=300))
    with agent_model(slow, key=KEY) as model:
        collected = collect(tmp_path, model, name, "bwrap", limits=TrialLimits(time_s=25))
    record = collected.record
    assert (record.status, record.limit_hit) == ("completed", "timeout"), record
    assert (collected.artifacts / "menu.txt").read_text() == "soup\nx\n"


@pytest.mark.parametrize("name", AGENTS)
def test_a_key_that_the_provider_rejects_is_the_agents_end_not_a_hang(tmp_path, name):
    with agent_model(idler(name), key="another-key") as model:
        record = collect(tmp_path, model, name, limits=TrialLimits(time_s=40)).record
    assert model.refused > 0
    assert record.status == "error" or record.transcript.error or record.limit_hit, record
    assert KEY not in record.to_json().decode()


@pytest.mark.parametrize("sandbox", ["none", "bwrap", DOCKER], indirect=True)
@pytest.mark.parametrize("name", ["claude-code", "codex"])
def test_an_mcp_server_of_the_variant_is_called(tmp_path, name, sandbox):
    pytest.importorskip("mcp")
    servers = {"menu": {"command": sys.executable, "args": ["-c", SERVER]}}
    if sandbox == "docker":
        servers = {"menu": {"command": "python3", "args": ["-c", PLAIN_SERVER], "image": IMAGE}}
    use = ToolUse(name="mcp__menu__price", arguments={"dish": "soup"})
    if name == "codex":
        use = ToolUse(name="price", namespace="mcp__menu", arguments={"dish": "soup"})
    script = steps(Turn(tools=[use]), Turn(text="It is 7."))
    with agent_model(script, key=KEY) as model:
        record = collect(tmp_path, model, name, sandbox, servers=servers).record
    calls = [event for event in record.transcript.events if event.source == "mcp"]
    assert [(call.server, call.name) for call in calls] == [("menu", "price")], (record, model.asked[0].tools)
    assert "soup costs 7" in str(calls[0].output)
    assert calls[0].arguments == {"dish": "soup"}
    assert record.transcript.final_text == "It is 7."


def test_the_agents_own_account_of_its_cost_is_kept_to_the_limit(tmp_path):
    dear = steps(Turn(text="Again.", tools=[bash("claude-code", "echo x >> menu.txt")]))
    with agent_model(dear, key=KEY) as model:
        record = collect(tmp_path, model, "claude-code", limits=TrialLimits(time_s=120, cost_usd=0.001)).record
    assert (record.status, record.limit_hit) == ("completed", "cost"), record
    assert record.transcript.usage.total_cost_usd > 0.001
