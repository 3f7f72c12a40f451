"""The client that calls tools of MCP servers directly, with no model: does the server do its job?"""

from __future__ import annotations

import asyncio
import time
from contextlib import AsyncExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from pydantic import ConfigDict, Field, ValidationError, model_validator

from mst.clients.contract import ClientResult, Needs, TrialContext
from mst.clients.mcp_servers import Lifetime, Servers
from mst.clients.options import ListedFiles, Options, parse_options
from mst.clients.placeholders import Values, substitute_data
from mst.errors import ClientError, ConfigError
from mst.model.base import Model
from mst.model.case import Case, Variant
from mst.model.transcript import Event, Evidence, Transcript

if TYPE_CHECKING:
    from mst.clients.mcp_session import Session


class McpOptions(Options):
    """Options of the `mcp` client. Its servers stand under the variant's `servers`."""

    server_lifetime: Lifetime = "trial"
    """`shard`: one server answers all trials, without a workspace of its own."""
    files: ListedFiles = []
    """Files beside the config that servers need; arguments that name them point to a private copy."""


class Call(Model):
    """One tool call of a case's input."""

    model_config = ConfigDict(extra="forbid")

    tool: str
    arguments: dict[str, Any] = {}
    server: str | None = None
    """Label; may be left out when there is one server."""


class Calls(Model):
    """A case's input: one call, or several in a row."""

    model_config = ConfigDict(extra="forbid")

    calls: list[Call] = Field(min_length=1)

    @model_validator(mode="before")
    @classmethod
    def _one_is_a_list(cls, value: Any) -> Any:
        return {"calls": [value]} if isinstance(value, dict) and "tool" in value else value


class Mcp:
    """Calls tools in the order of the case's input. The last call's text is the final answer.

    A tool's error is an answer (`is_error` in its event) and does not stop the calls that follow. A server that ends,
    or never answers the handshake, is a fault of the environment.
    """

    Options: ClassVar[type[Model]] = McpOptions
    evidence: ClassVar[Evidence] = "structured"
    starts_from: ClassVar[Literal["fixture", "solution"]] = "fixture"
    needs: ClassVar[Needs] = "workspace"

    def __init__(self, variant: Variant) -> None:
        self.options = parse_options(McpOptions, variant)
        if not variant.servers:
            need = "the mcp client needs at least one server: {label: {command: ...}} or {label: {url: ...}}"
            raise ConfigError(f"variant {variant.name!r}: servers: {need}")
        self.servers = Servers(variant, files=self.options.files, lifetime=self.options.server_lifetime)

    def secrets_needed(self) -> list[str]:
        """Names in the servers' `env` and `headers` and the variant's `env`."""
        return self.servers.secrets_needed()

    def programs(self) -> dict[str, str | None]:
        """See `StartsPrograms`: the servers'."""
        return self.servers.programs()

    def preflight(self) -> list[str]:
        """Programs that are not installed, servers that can't be shared, and a missing `mst[mcp]`."""
        return self.servers.faults()

    async def run(self, case: Case, workspace: Path | None, context: TrialContext) -> ClientResult:
        """See `Client.run`."""
        if workspace is None:
            raise ClientError("the mcp client was given no workspace", "harness")
        inside = context.enclosure.seen(workspace)
        calls = self._calls(
            case, Values(input=case.input, prompt=context.prompt, workspace=inside, python=context.enclosure.python)
        )
        values = Values(input=case.input, prompt=context.prompt, workspace=workspace)
        started = time.perf_counter()
        events: list[Event] = []
        limit = context.variant.trial_limits.time_s
        error = None
        async with AsyncExitStack() as stack:
            clock = asyncio.timeout(limit)
            try:
                async with clock:
                    labels = [str(call.server) for call in calls]
                    sessions = await self.servers.for_trial(labels, values, context, stack)
                    await _call_all(calls, sessions, events)
            except TimeoutError:
                if not clock.expired():
                    raise
                error = f"ended at its time limit of {limit:g} s"
        answered = [event for event in events if event.is_error is not None]
        return ClientResult(
            transcript=Transcript(
                events=events,
                final_text=str(answered[-1].output) if answered else None,
                error=error,
                evidence="structured",
            ),
            limit_hit="timeout" if error is not None else None,
            agent_duration_ms=(time.perf_counter() - started) * 1000,
        )

    async def close(self) -> None:
        """End the shared servers."""
        await self.servers.close()

    def _calls(self, case: Case, values: Values) -> list[Call]:
        try:
            calls = Calls.model_validate(case.input).calls
        except ValidationError as error:
            fault = error.errors(include_url=False, include_input=False)[0]
            where = ".".join(map(str, fault["loc"])) or "input"
            raise ClientError(
                f"case {case.id}: {where}: {fault['msg']}; the mcp client takes {{tool, arguments}} or calls: [...]",
                "harness",
            ) from error
        return [
            call.model_copy(
                update={"arguments": substitute_data(call.arguments, values), "server": self._label(call, case)}
            )
            for call in calls
        ]

    def _label(self, call: Call, case: Case) -> str:
        labels = self.servers.labels
        if call.server is None and len(labels) == 1:
            return labels[0]
        if call.server not in labels:
            known = ", ".join(labels)
            raise ClientError(f"case {case.id}: call of {call.tool}: name its server; known: {known}", "harness")
        return call.server


async def _call_all(calls: list[Call], sessions: dict[str, Session], events: list[Event]) -> None:
    for number, call in enumerate(calls):
        session = sessions[str(call.server)]
        try:
            events.append(await session.call(call.tool, call.arguments, call_id=str(number)))
        except asyncio.CancelledError:
            # A call that never came back belongs to what happened.
            unanswered = Event(kind="tool_call", source="mcp", name=call.tool, server=call.server, id=str(number))
            events.append(unanswered.model_copy(update={"arguments": call.arguments}))
            raise
