"""The client that is a model in a tool loop: it asks the model, calls the tools that it asks for, and goes on."""

from __future__ import annotations

from pathlib import Path
from typing import Any, ClassVar, Literal

from pydantic import ValidationError

from mst.clients.contract import ClientResult, Needs, TrialContext
from mst.clients.llm_options import LlmOptions
from mst.clients.mcp_servers import Servers
from mst.clients.options import parse_options
from mst.errors import ConfigError
from mst.model.base import Model
from mst.model.case import Case, Variant
from mst.model.transcript import Evidence
from mst.providers.endpoints import Endpoint
from mst.providers.load import library
from mst.providers.patience import QUEUE_S


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
        from mst.clients.llm_loop import Conversation  # noqa: PLC0415 - the model library costs a second to import

        name = self.endpoint.key_name
        # Vendors' clients want some key even where none is asked for.
        key = context.secrets[name] if name else "none"
        if key not in self._connections:
            self._connections[key] = library().Connection(self.endpoint, key)
        conversation = Conversation(
            options=self.options,
            endpoint=self.endpoint,
            connection=self._connections[key],
            servers=self.servers,
            context=context,
        )
        return await conversation.run(case, workspace)

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
