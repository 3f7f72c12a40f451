"""What happened in one trial, as ordered typed events, and what it cost."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import ConfigDict

from mst.model.base import Model

Evidence = Literal["structured", "observed", "none"]
EventKind = Literal["message", "tool_call", "skill", "command", "subagent", "tool_search"]


class Usage(Model):
    """Tokens, money and time. A value that is not known is absent, never 0."""

    model_config = ConfigDict(use_attribute_docstrings=True)

    input_tokens: int | None = None
    output_tokens: int | None = None
    reasoning_output_tokens: int | None = None
    cache_read_input_tokens: int | None = None
    cache_creation_input_tokens: int | None = None
    total_cost_usd: float | None = None
    """As the provider or the program said it."""
    estimated_cost_usd: float | None = None
    """From the config's `pricing`."""
    duration_ms: float | None = None
    duration_api_ms: float | None = None
    turns: int | None = None


class Event(Model):
    """One thing that the program under test did or said."""

    model_config = ConfigDict(use_attribute_docstrings=True)

    kind: EventKind
    source: Literal["mcp", "builtin"] = "builtin"
    name: str
    """The tool, skill or command; for a message the role that spoke."""
    server: str | None = None
    arguments: Any = None
    output: Any = None
    """What came back; for a message its text."""
    is_error: bool | None = None
    raw_name: str | None = None
    id: str | None = None
    duration_ms: float | None = None
    started_at: str | None = None
    completed_at: str | None = None
    results: list[Any] | None = None
    """Of a tool search: what was found."""


class Transcript(Model):
    """Events in the order in which they happened, the final answer, and the error that ended it, if one did."""

    events: list[Event] = []
    final_text: str | None = None
    usage: Usage | None = None
    error: str | None = None
    evidence: Evidence = "none"
