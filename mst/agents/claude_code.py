"""Claude Code: `claude -p` with its stream of JSON lines."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, ClassVar

from mst.agents.contract import Agent, Given, Plan
from mst.agents.reading import Calls, json_lines, spoken, text_of, whole
from mst.model.transcript import Event, Transcript, Usage

_SERVERS_FILE = "mcp.json"
_SERVER_START_MS = "60000"
_MCP_PREFIX = "mcp__"
_READING_TOOLS = "Read,Grep,Glob"


class ClaudeCode(Agent):
    """See `Agent`. The user's own settings are not read: its home is the trial's."""

    PROGRAM: ClassVar[str] = "claude"
    KEY: ClassVar[str] = "ANTHROPIC_API_KEY"
    URL: ClassVar[str] = "https://api.anthropic.com"
    PROVIDER: ClassVar[str] = "anthropic"

    def plan(self, given: Given) -> Plan:
        """See `Agent.plan`."""
        argv = [self.PROGRAM, "-p", "--output-format", "stream-json", "--verbose"]
        # Whether something may be done is decided by the sandbox, not by a question that nobody answers.
        argv += ["--permission-mode", "bypassPermissions", "--strict-mcp-config"]
        if given.model:
            argv += ["--model", given.model]
        if given.limits.cost_usd is not None:
            argv += ["--max-budget-usd", f"{given.limits.cost_usd:g}"]
        if given.reads_only:
            argv += ["--tools", _READING_TOOLS]
        if given.answer is not None:
            argv += ["--json-schema", json.dumps(given.answer)]
        files = {}
        if given.servers:
            files[_SERVERS_FILE] = json.dumps({"mcpServers": _servers(given)})
            argv += ["--mcp-config", str(given.home / _SERVERS_FILE)]
        env = {
            "ANTHROPIC_BASE_URL": given.url,
            "ANTHROPIC_API_KEY": given.key,
            "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
            "DISABLE_AUTOUPDATER": "1",
            # Its first turn waits for its servers: an agent that starts without them was not given them.
            "MCP_CONNECTION_NONBLOCKING": "0",
            "MCP_TIMEOUT": _SERVER_START_MS,
            # It refuses to go without questions as root unless it is told that it is in a sandbox.
            "IS_SANDBOX": "1",
        }
        return Plan(argv=argv, env=env, files=files, stdin=given.prompt.encode())

    def read(self, output: bytes, home: Path, limit_bytes: int) -> tuple[Transcript, int]:
        """See `Agent.read`."""
        return read_stream(output)


def read_stream(output: bytes) -> tuple[Transcript, int]:
    """Claude Code's `stream-json`: messages of both sides, then one `result`."""
    calls = Calls()
    result: dict[str, Any] = {}
    unused = 0
    for line in json_lines(output):
        kind = None if line is None else line.get("type")
        if line is None:
            unused += 1
        elif kind == "result":
            result = line
        elif kind in {"assistant", "user"} and isinstance(line.get("message"), dict):
            _message(line["message"], str(kind), calls)
    final = result.get("result")
    if not isinstance(final, str):
        said = [event.output for event in calls.events if event.kind == "message"]
        final = said[-1] if said else None
    error = None
    if result.get("is_error") or result.get("subtype", "success") != "success":
        error = f"the agent reports {result.get('subtype')}" + (f": {final}" if isinstance(final, str) else "")
    return (
        Transcript(events=calls.events, final_text=final, usage=_usage(result), error=error, evidence="observed"),
        unused,
    )


def _message(message: dict[str, Any], role: str, calls: Calls) -> None:
    content = message.get("content")
    for part in content if isinstance(content, list) else []:
        if not isinstance(part, dict):
            continue
        if part.get("type") == "text" and role == "assistant":
            calls.add(spoken(str(part.get("text", ""))))
        elif part.get("type") == "tool_use":
            calls.add(_call(part))
        elif part.get("type") == "tool_result":
            answer = part.get("content")
            text = text_of(answer) if answer is not None else ""
            calls.answer(str(part.get("tool_use_id")), text, is_error=bool(part.get("is_error")))


def _call(part: dict[str, Any]) -> Event:
    name, given = str(part.get("name")), part.get("input")
    arguments = given if isinstance(given, dict) else {}
    common: dict[str, Any] = {"arguments": given, "id": str(part.get("id")), "raw_name": name}
    if name.startswith(_MCP_PREFIX):
        server, _, tool = name.removeprefix(_MCP_PREFIX).partition("__")
        return Event(kind="tool_call", source="mcp", name=tool, server=server, **common)
    if name == "Bash":
        return Event(kind="command", name=str(arguments.get("command", "")), **common)
    if name == "Skill":
        return Event(kind="skill", name=str(arguments.get("skill", arguments.get("command", ""))), **common)
    if name in {"Task", "Agent"}:
        return Event(kind="subagent", name=str(arguments.get("subagent_type", name)), **common)
    if name == "ToolSearch":
        return Event(kind="tool_search", name=str(arguments.get("query", "")), **common)
    return Event(kind="tool_call", name=name, **common)


def _usage(result: dict[str, Any]) -> Usage | None:
    used = result.get("usage")
    if not isinstance(used, dict):
        return None
    cost = result.get("total_cost_usd")
    return Usage.told(
        input_tokens=whole(used.get("input_tokens")),
        output_tokens=whole(used.get("output_tokens")),
        cache_read_input_tokens=whole(used.get("cache_read_input_tokens")),
        cache_creation_input_tokens=whole(used.get("cache_creation_input_tokens")),
        total_cost_usd=cost if isinstance(cost, int | float) else None,
        duration_ms=whole(result.get("duration_ms")),
        duration_api_ms=whole(result.get("duration_api_ms")),
        turns=whole(result.get("num_turns")),
    )


def _servers(given: Given) -> dict[str, Any]:
    return {
        label: {"type": "stdio", "command": server.argv[0], "args": list(server.argv[1:]), "env": dict(server.env)}
        for label, server in given.servers.items()
    }
