"""What happened in one trial, as ordered typed events, and what it cost."""

from __future__ import annotations

from typing import Annotated, Any, Literal, Self

from pydantic import Field

from mst.model.base import Model

Evidence = Literal["structured", "observed", "none"]
EventKind = Literal["message", "tool_call", "skill", "command", "subagent", "tool_search"]


MOST = 10**15
"""The largest count, amount or duration that is believed: sums over any run stay finite, and digits are kept."""
Count = Annotated[int, Field(ge=0, le=MOST)]
Amount = Annotated[float, Field(ge=0, le=MOST)]


class Usage(Model):
    """Tokens, money and time. A value that is not known is absent, never 0."""

    input_tokens: Count | None = None
    output_tokens: Count | None = None
    reasoning_output_tokens: Count | None = None
    cache_read_input_tokens: Count | None = None
    cache_creation_input_tokens: Count | None = None
    total_cost_usd: Amount | None = None
    """As the provider or the program said it."""
    estimated_cost_usd: Amount | None = None
    """From the config's `pricing`."""
    duration_ms: Amount | None = None
    duration_api_ms: Amount | None = None
    turns: Count | None = None

    @property
    def cost_usd(self) -> float | None:
        """What was paid as far as anybody knows: the provider's word before our estimate."""
        return self.total_cost_usd if self.total_cost_usd is not None else self.estimated_cost_usd

    @property
    def known_tokens(self) -> int:
        """Tokens in and out, as far as they are known."""
        return (self.input_tokens or 0) + (self.output_tokens or 0)

    @classmethod
    def told(cls, **values: Any) -> Self:
        """Usage in the words of a program or a server; what cannot be true, such as a number below zero, is unknown."""
        return cls(**{name: value if value is None or 0 <= value <= MOST else None for name, value in values.items()})

    @classmethod
    def summed(cls, **sums: Any) -> Self:
        """Usage of several together: a sum beyond the bound of one value stays at the bound."""
        return cls(**{name: value if value is None else min(value, MOST) for name, value in sums.items()})


class Event(Model):
    """One thing that the program under test did or said."""

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
    duration_ms: Amount | None = None
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
