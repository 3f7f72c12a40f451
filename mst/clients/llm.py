"""The client that is a model in a tool loop: it asks the model, calls the tools that it asks for, and goes on."""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal

from pydantic import Field, ValidationError, model_validator

from mst.clients.contract import ClientResult, Needs, TrialContext
from mst.clients.mcp_servers import Lifetime, Servers
from mst.clients.options import ListedFiles, Options, SecretRef, parse_options
from mst.errors import ConfigError
from mst.model.base import Model
from mst.model.case import Case, Variant
from mst.model.transcript import Evidence
from mst.providers.endpoints import Dialect, Endpoint, Url
from mst.providers.load import library
from mst.providers.patience import QUEUE_S


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


class Llm:
    """A conversation of a model with the tools of MCP servers, until it answers without calling one.

    It runs in mst's own process; servers that are programs run in the variant's sandbox.
    """

    Options: ClassVar[type[Model]] = LlmOptions
    evidence: ClassVar[Evidence] = "structured"
    starts_from: ClassVar[Literal["fixture", "solution"]] = "fixture"
    needs: ClassVar[Needs] = "scratch"
    paces_models: ClassVar[bool] = True
    probe_input = "Reply with the one word: ready"
    waits_s: ClassVar[float] = QUEUE_S

    def __init__(self, variant: Variant) -> None:
        self.options = parse_options(LlmOptions, variant)
        self.endpoint = _endpoint(variant, self.options)
        self.servers = Servers(variant, files=self.options.files, lifetime=self.options.server_lifetime)
        self._connections: dict[str, Any] = {}
        """By key, which may be renewed while trials run; calls may be under way on one with an earlier key."""

    def secrets_needed(self) -> list[str]:
        """The provider's key, and names in the servers' `env` and `headers` and the variant's `env`."""
        key = self.endpoint.key_name
        return sorted({*self.servers.secrets_needed(), *([key] if key is not None else [])})

    def programs(self) -> dict[str, str | None]:
        """See `StartsPrograms`: the servers'."""
        return self.servers.programs()

    def preflight(self) -> list[str]:
        """Missing packages, programs of servers that are not installed, servers that can't be shared."""
        faults = self.servers.faults()
        try:
            library().check(self.endpoint)
        except ConfigError as error:
            faults.append(str(error))
        return faults

    async def run(self, case: Case, workspace: Path | None, context: TrialContext) -> ClientResult:
        """See `Client.run`."""
        # The model library costs a second to import: only who asks a model pays it.
        loop = importlib.import_module("mst.clients.llm_loop")
        name = self.endpoint.key_name
        # Vendors' clients want some key even where none is asked for.
        key = context.secrets[name] if name else "none"
        if key not in self._connections:
            self._connections[key] = library().Connection(self.endpoint, key)
        conversation = loop.Conversation(
            options=self.options,
            endpoint=self.endpoint,
            connection=self._connections[key],
            servers=self.servers,
            context=context,
        )
        result: ClientResult = await conversation.run(case, workspace)
        return result

    async def close(self) -> None:
        """End the shared sessions and the connection."""
        await self.servers.close()
        while self._connections:
            await self._connections.popitem()[1].close()


def _endpoint(variant: Variant, options: LlmOptions) -> Endpoint:
    where = f"variant {variant.name!r}"
    if variant.model is None:
        raise ConfigError(f"{where}: the llm client needs a model, as 'model: openai:NAME' or 'model: anthropic:NAME'")
    try:
        return Endpoint(
            model=variant.model,
            provider=options.provider,
            base_url=options.base_url,
            api_key=None if options.key is None else options.key.secret,
            rate_limit=options.rate_limit,
        )
    except ValidationError as error:
        fault = error.errors(include_url=False, include_input=False)[0]
        raise ConfigError(f"{where}: model: {str(fault['msg']).removeprefix('Value error, ')}") from error
