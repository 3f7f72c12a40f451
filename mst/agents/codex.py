"""Codex: `codex exec --json`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, ClassVar

from mst.agents.contract import Agent, Given, Plan
from mst.agents.reading import Calls, json_lines, spoken, text_of, whole
from mst.model.transcript import Event, Transcript, Usage

_HOME = ".codex"
_ANSWER = "answer.json"
_KEY = "MST_MODEL_KEY"
_SERVER_START_S = 60


class Codex(Agent):
    """See `Agent`. Its own sandbox is off: a sandbox in a sandbox fails, and isolation is not its to choose."""

    PROGRAM: ClassVar[str] = "codex"
    KEY: ClassVar[str] = "OPENAI_API_KEY"
    URL: ClassVar[str] = "https://api.openai.com"
    PROVIDER: ClassVar[str] = "openai"

    def plan(self, given: Given) -> Plan:
        """See `Agent.plan`."""
        argv = [self.PROGRAM, "exec", "--json", "--skip-git-repo-check", "--ephemeral"]
        if given.model:
            argv += ["--model", given.model]
        files = {f"{_HOME}/config.toml": settings(given)}
        if given.answer is not None:
            files[_ANSWER] = json.dumps(given.answer)
            argv += ["--output-schema", str(given.home / _ANSWER)]
        # The prompt comes on standard input, where its length is no matter.
        return Plan(
            argv=[*argv, "-"],
            env={_KEY: given.key, "CODEX_HOME": str(given.home / _HOME)},
            files=files,
            stdin=given.prompt.encode(),
        )

    def read(self, output: bytes, home: Path, limit_bytes: int) -> tuple[Transcript, int]:
        """See `Agent.read`."""
        return read_events(output)


def settings(given: Given) -> str:
    """Codex's `config.toml`. JSON texts and lists are TOML too."""
    lines = [
        'model_provider = "mst"',
        'approval_policy = "never"',
        'sandbox_mode = "danger-full-access"',
        "check_for_update_on_startup = false",
        "[analytics]",
        "enabled = false",
        "[model_providers.mst]",
        'name = "mst"',
        f"base_url = {json.dumps(given.url.rstrip('/') + '/v1')}",
        f"env_key = {json.dumps(_KEY)}",
        'wire_api = "responses"',
    ]
    for label, server in given.servers.items():
        lines += [
            f"[mcp_servers.{json.dumps(label)}]",
            f"command = {json.dumps(server.argv[0])}",
            f"args = {json.dumps(list(server.argv[1:]))}",
            # An agent that starts without its servers was not given them.
            "required = true",
            f"startup_timeout_sec = {_SERVER_START_S}",
        ]
        if server.env:
            pairs = ", ".join(f"{json.dumps(name)} = {json.dumps(value)}" for name, value in server.env.items())
            lines.append(f"env = {{ {pairs} }}")
    return "\n".join(lines) + "\n"


def read_events(output: bytes) -> tuple[Transcript, int]:
    """Codex's JSON lines: items that begin, change and end; a turn's end with what it used."""
    calls = Calls()
    usage: Usage | None = None
    error: str | None = None
    unused = 0
    final: str | None = None
    for line in json_lines(output):
        kind = "" if line is None else str(line.get("type", ""))
        if line is None:
            unused += 1
        elif kind.startswith("item."):
            item = line.get("item")
            if isinstance(item, dict):
                final = _item(item, calls) or final
        elif kind == "turn.completed":
            usage = _added(usage, line.get("usage"))
        elif kind in {"turn.failed", "error"}:
            error = _reason(line)
    return Transcript(events=calls.events, final_text=final, usage=usage, error=error, evidence="observed"), unused


def _item(item: dict[str, Any], calls: Calls) -> str | None:
    """Take an item in; returns the text when it is something that the agent said."""
    kind, number = item.get("type"), str(item.get("id"))
    if kind == "agent_message":
        text = str(item.get("text", ""))
        calls.add(spoken(text).model_copy(update={"id": number}))
        return text
    if kind == "command_execution":
        code = item.get("exit_code")
        calls.add(
            Event(
                kind="command",
                name=str(item.get("command", "")),
                output=item.get("aggregated_output"),
                is_error=None if code is None else code != 0,
                raw_name="command_execution",
                id=number,
            )
        )
    elif kind == "mcp_tool_call":
        calls.add(_mcp_call(item, number))
    elif kind == "file_change":
        done = item.get("status")
        calls.add(
            Event(
                kind="tool_call",
                name="file_change",
                arguments=item.get("changes"),
                is_error=None if done == "in_progress" else done == "failed",
                id=number,
            )
        )
    elif kind == "web_search":
        calls.add(Event(kind="tool_call", name="web_search", arguments={"query": item.get("query")}, id=number))
    return None


def _mcp_call(item: dict[str, Any], number: str) -> Event:
    result = item.get("result")
    failure = item.get("error")
    output: Any = text_of(result.get("content")) if isinstance(result, dict) else None
    if isinstance(failure, dict):
        output = failure.get("message")
    ended = item.get("status") in {"completed", "failed"}
    return Event(
        kind="tool_call",
        source="mcp",
        name=str(item.get("tool")),
        server=str(item.get("server")),
        arguments=item.get("arguments"),
        output=output,
        is_error=(item.get("status") == "failed") if ended else None,
        id=number,
    )


def _added(before: Usage | None, said: Any) -> Usage | None:
    if not isinstance(said, dict):
        return before
    found = {
        "input_tokens": whole(said.get("input_tokens")),
        "output_tokens": whole(said.get("output_tokens")),
        "cache_read_input_tokens": whole(said.get("cached_input_tokens")),
        "reasoning_output_tokens": whole(said.get("reasoning_output_tokens")),
    }
    if before is None:
        return Usage.told(**found)
    return Usage.summed(**{name: _sum(getattr(before, name), value) for name, value in found.items()})


def _sum(first: int | None, second: int | None) -> int | None:
    return None if first is None and second is None else (first or 0) + (second or 0)


def _reason(line: dict[str, Any]) -> str:
    said = line.get("error")
    message = said.get("message") if isinstance(said, dict) else line.get("message")
    return str(message or "the agent reports an error")[:2000]
