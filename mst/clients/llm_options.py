"""Options of the client `llm`."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import Field, model_validator

from mst.clients.mcp_servers import Lifetime
from mst.clients.options import ListedFiles, Options, SecretRef
from mst.providers.endpoints import Dialect, Url


class LlmOptions(Options):
    """Options of the `llm` client. The model is the variant's `model`, its tools are those of its `servers`."""

    provider: Dialect | None = None
    """The dialect that is spoken: `openai` (and everything compatible), `anthropic`, `google`."""
    base_url: Url | None = None
    """Another address, as for `http://127.0.0.1:11434/v1`: a gateway, a local server."""
    key: SecretRef | None = None
    """`{secret: NAME}`: the provider's key; `OPENAI_API_KEY`, `ANTHROPIC_API_KEY` or `GOOGLE_API_KEY` by default, none
    with a `base_url`."""
    rate_limit: str | None = None
    """Entry of `rate_limits.providers` that applies; the provider's name by default."""
    system: Annotated[str, Field(min_length=1)] | None = None
    """The system prompt."""
    max_tokens: int = Field(default=4096, gt=0)
    """Bound of one answer of the model."""
    temperature: float | None = Field(default=None, ge=0, le=2)
    """The provider's default unless given."""
    top_p: float | None = Field(default=None, gt=0, le=1)
    """The same."""
    seed: int | None = None
    """For providers that take one."""
    stop: list[str] = Field(default=[], max_length=16)
    """Texts that end an answer."""
    extra_body: dict[str, Any] = {}
    """Further fields of each request, for what only one provider knows; not for Google."""
    max_turns: int = Field(default=50, gt=0)
    """Answers of the model in one trial, unless `trial_limits.turns` says less."""
    max_tool_calls: int | None = Field(default=None, gt=0)
    """Calls of tools in one trial."""
    max_tool_output: int = Field(default=100_000, gt=0)
    """Characters of a tool's output that the model is shown."""
    only_tools: list[str] | None = None
    """Tools to offer, as `name` or `server.name`; all by default."""
    server_lifetime: Lifetime = "trial"
    """`shard`: one session with each server for all trials, without a workspace of its own."""
    files: ListedFiles = []
    """Files beside the config that servers need; arguments that name them point to a private copy."""
    retries: int = Field(default=2, ge=0, le=10)
    """Transport faults that each request may have. "Too many requests" is waited out as told and spends none."""
    request_timeout_s: float = Field(default=300, gt=0)
    """Bound of one request."""

    @model_validator(mode="after")
    def _extra_body_is_sent(self) -> LlmOptions:
        if self.extra_body and self.provider == "google":
            raise ValueError("extra_body is not sent to Google")
        return self

    def settings(self) -> dict[str, Any]:
        """Settings of each request in the model library's names."""
        given = {
            "temperature": self.temperature,
            "top_p": self.top_p,
            "seed": self.seed,
            "stop_sequences": self.stop or None,
            "extra_body": self.extra_body or None,
        }
        return {"max_tokens": self.max_tokens, **{name: value for name, value in given.items() if value is not None}}
