"""mini-swe-agent: `mini` with the trajectory that it writes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, ClassVar

from mst.agents.contract import Agent, Given, Plan
from mst.agents.reading import Calls, spoken, text_of, whole
from mst.model.transcript import Event, Transcript, Usage
from mst.model.trial import LimitHit
from mst.process.written import read_bounded

_TRAJECTORY = "trajectory.json"
_SUBMITTED = "Submitted"
_LIMITED = "the agent reports LimitsExceeded"


class MiniSweAgent(Agent):
    """See `Agent`. The model is named as LiteLLM names it; `openai/...` for any compatible server."""

    PROGRAM: ClassVar[str] = "mini"
    KEY: ClassVar[str] = "OPENAI_API_KEY"
    URL: ClassVar[str] = "https://api.openai.com"
    PROVIDER: ClassVar[str] = "openai"
    LAST_WORDS: ClassVar[str] = (
        "Say your answer as the words of the message in which you give the command that ends your work."
    )
    NEEDS_MODEL: ClassVar[bool] = True
    TAKES_SERVERS: ClassVar[bool] = False

    def plan(self, given: Given) -> Plan:
        """See `Agent.plan`."""
        limits = given.limits
        argv = [self.PROGRAM, "--yolo", "--exit-immediately", "--model", str(given.model)]
        argv += ["--output", str(given.home / _TRAJECTORY), "--cost-limit", f"{limits.cost_usd or 0:g}"]
        anthropic = str(given.model).startswith("anthropic/")
        env = {
            **(_anthropic(given) if anthropic else _openai(given)),
            "MSWEA_CONFIGURED": "true",
            "MSWEA_GLOBAL_CONFIG_DIR": str(given.home / "config"),
            "MSWEA_COST_TRACKING": "ignore_errors",
            "MSWEA_SILENT_STARTUP": "1",
            # Prices come with the library; looking for newer ones takes its time where there is no network.
            "LITELLM_LOCAL_MODEL_COST_MAP": "True",
        }
        return Plan(argv=[*argv, "--task", given.prompt], env=env)

    def own_limit(self, transcript: Transcript) -> LimitHit | None:
        """It is given a limit of cost alone; turns and tokens are the proxy's to count."""
        return "cost" if transcript.error == _LIMITED else None

    def read(self, output: bytes, home: Path, limit_bytes: int) -> tuple[Transcript, int]:
        """See `Agent.read`. Standard output is for people; the trajectory is what it did."""
        data = read_bounded(home, _TRAJECTORY, limit_bytes)
        if data is None:
            return Transcript(evidence="observed"), 0
        return read_trajectory(data)


def _openai(given: Given) -> dict[str, str]:
    return {"OPENAI_API_KEY": given.key, "OPENAI_API_BASE": given.url.rstrip("/") + "/v1"}


def _anthropic(given: Given) -> dict[str, str]:
    return {"ANTHROPIC_API_KEY": given.key, "ANTHROPIC_API_BASE": given.url}


def read_trajectory(data: bytes) -> tuple[Transcript, int]:
    """mini-swe-agent's trajectory: messages of both sides, then how it ended."""
    try:
        found = json.loads(data)
    except (ValueError, RecursionError):
        return Transcript(evidence="observed"), 1
    messages = found.get("messages") if isinstance(found, dict) else None
    info = found.get("info") if isinstance(found, dict) else None
    if not isinstance(messages, list) or not isinstance(info, dict):
        return Transcript(evidence="observed"), 1
    calls = Calls()
    spent = _Spent()
    unused = 0
    for message in messages:
        if not isinstance(message, dict):
            unused += 1
        elif message.get("role") == "assistant":
            _say(message, calls)
            spent.add(message)
        elif message.get("role") == "tool":
            _answer(message, calls)
    status = info.get("exit_status")
    error = None if status in {_SUBMITTED, None, ""} else f"the agent reports {status}"
    final = info.get("submission") or next(
        (event.output for event in reversed(calls.events) if event.kind == "message"), None
    )
    transcript = Transcript(
        events=calls.events, final_text=final, usage=spent.usage(info), error=error, evidence="observed"
    )
    return transcript, unused


def _say(message: dict[str, Any], calls: Calls) -> None:
    text = text_of(message.get("content"))
    if text:
        calls.add(spoken(text))
    extra = message.get("extra")
    actions = extra.get("actions") if isinstance(extra, dict) else None
    for action in actions if isinstance(actions, list) else []:
        if isinstance(action, dict):
            command = str(action.get("command", ""))
            identity = str(action.get("tool_call_id"))
            calls.add(Event(kind="command", name=command, raw_name="bash", id=identity))


def _answer(message: dict[str, Any], calls: Calls) -> None:
    extra = message.get("extra")
    told = extra if isinstance(extra, dict) else {}
    code = told.get("returncode")
    output = told.get("raw_output", message.get("content"))
    calls.answer(str(message.get("tool_call_id")), output, is_error=None if code is None else code != 0)


class _Spent:
    """What the answers of the model say that they used; a part that none of them says stays unknown."""

    def __init__(self) -> None:
        self._sums: dict[str, int] = {}
        self._turns = 0

    def add(self, message: dict[str, Any]) -> None:
        """One answer."""
        self._turns += 1
        extra = message.get("extra")
        response = extra.get("response") if isinstance(extra, dict) else None
        used = response.get("usage") if isinstance(response, dict) else None
        for name in ("prompt_tokens", "completion_tokens"):
            count = whole(used.get(name)) if isinstance(used, dict) else None
            if count is not None:
                self._sums[name] = self._sums.get(name, 0) + count

    def usage(self, info: dict[str, Any]) -> Usage:
        """In all. A cost of zero is the agent's word for a price that it does not know."""
        stats = info.get("model_stats")
        cost = stats.get("instance_cost") if isinstance(stats, dict) else None
        return Usage.told(
            input_tokens=self._sums.get("prompt_tokens"),
            output_tokens=self._sums.get("completion_tokens"),
            total_cost_usd=cost if isinstance(cost, int | float) and cost > 0 else None,
            turns=self._turns,
        )
