"""The coding agents themselves, for tests: installed once into a cache folder, and what a model says to each."""

from __future__ import annotations

import os
import subprocess
import venv
from pathlib import Path

import pytest

from mst.testing.agentmodel import ToolUse, Turn

NPM = ["@anthropic-ai/claude-code@2.1.197", "@openai/codex@0.171.0"]
PIP = ["mini-swe-agent==2.4.6"]
CACHE = Path(os.environ.get("MST_TEST_CACHE") or Path.home() / ".cache" / "mst-tests") / "agents"
PROGRAMS = {"claude-code": "claude", "codex": "codex", "mini-swe-agent": "mini"}
MODELS = {"claude-code": "claude-sonnet-4-5", "codex": "gpt-5", "mini-swe-agent": "openai/gpt-x"}
KEYS = {"claude-code": "ANTHROPIC_API_KEY", "codex": "OPENAI_API_KEY", "mini-swe-agent": "OPENAI_API_KEY"}
AGENTS = sorted(PROGRAMS)


def install_agents() -> None:
    """Install them, once. Where that is not possible the tests that call this are skipped; in CI they fail."""
    try:
        _install()
    except (OSError, subprocess.CalledProcessError) as error:
        (pytest.fail if os.environ.get("CI") else pytest.skip)(f"the agents cannot be installed: {error}")


def _install() -> None:
    done = CACHE / f"done-{'-'.join(NPM + PIP).replace('/', '_')}"
    if done.exists():
        return
    CACHE.mkdir(parents=True, exist_ok=True)
    subprocess.run(["npm", "install", "--no-audit", "--no-fund", "--prefix", str(CACHE), *NPM], check=True)
    venv.create(CACHE / "venv", with_pip=True)
    subprocess.run([CACHE / "venv/bin/python", "-m", "pip", "install", "--quiet", *PIP], check=True)
    done.touch()


def program(name: str) -> str:
    """The path of an agent's program."""
    return str(CACHE / ("venv/bin/mini" if name == "mini-swe-agent" else f"node_modules/.bin/{PROGRAMS[name]}"))


def bash(name: str, command: str) -> ToolUse:
    """A command in a shell, as the agent's model asks for it."""
    if name == "claude-code":
        return ToolUse(name="Bash", arguments={"command": command, "description": "run"})
    if name == "codex":
        return ToolUse(name="exec_command", arguments={"cmd": command})
    return ToolUse(name="bash", arguments={"command": command})


def ending(name: str, text: str = "All done.") -> Turn:
    """The model's last turn."""
    if name == "mini-swe-agent":
        return Turn(text=text, tools=[bash(name, "echo COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT")])
    return Turn(text=text)
