"""The client that calls tools of MCP servers directly, with no model: does the server do its job?"""

from __future__ import annotations

import asyncio
import importlib.util
import tempfile
import time
from contextlib import AsyncExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from pydantic import ConfigDict, Field, TypeAdapter, ValidationError, model_validator

from mst.clients.contract import ClientResult, Needs, TrialContext
from mst.clients.options import Environment, ListedFiles, Options, parse_options, secret_names, variant_environment
from mst.clients.placeholders import Values, names_workspace, substitute, substitute_data
from mst.clients.program import place_listed, program_faults, resolve_listed, sandbox_of, trial_environment
from mst.errors import ClientError, ConfigError
from mst.model.base import Model
from mst.model.case import Case, Variant
from mst.model.transcript import Event, Evidence, Transcript
from mst.sandboxes.contract import Enclosure, Folders

if TYPE_CHECKING:
    from mst.clients.mcp_server import Server

START_S = 30.0
"""A server that has not answered the handshake by then is taken for dead."""


class StdioServer(Options):
    """How one server is started."""

    command: str
    args: list[str] = []
    env: Environment = {}
    cwd: str | None = None
    """The workspace unless given; relative to it."""


class McpOptions(Options):
    """Options of the `mcp` client. Its servers stand under the variant's `servers`."""

    server_lifetime: Literal["trial", "shard"] = "trial"
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


_servers: TypeAdapter[dict[str, StdioServer]] = TypeAdapter(dict[str, StdioServer])


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
        self.variant = variant
        self.sandbox = sandbox_of(variant)
        self._shared_in: Enclosure | None = None
        self.servers = _parse_servers(variant)
        self._env = variant_environment(variant)
        self._shared: dict[str, Server] = {}
        self._starting = asyncio.Lock()
        self._folder: tempfile.TemporaryDirectory[str] | None = None

    def secrets_needed(self) -> list[str]:
        """Names in the servers' `env` and the variant's."""
        everything = [self._env, *(server.env for server in self.servers.values())]
        return sorted({name for env in everything for name in secret_names(env)})

    def preflight(self) -> list[str]:
        """Programs that are not installed, servers that can't be shared, and a missing `mst[mcp]`."""
        faults = self.sandbox.faults()
        if importlib.util.find_spec("mcp") is None:
            faults.append("the mcp client needs the package 'mcp': pip install 'mst[mcp]'")
        for label, server in self.servers.items():
            env = {**self._env, **server.env}
            found = program_faults([server.command], self.options.files, env, self.sandbox)
            faults += [f"server {label}: {fault}" for fault in found]
            if self.options.server_lifetime == "shard" and _uses_workspace(server):
                faults.append(f"server {label}: with server_lifetime: shard there is no {{{{workspace}}}}; remove it")
        return faults

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
                    servers = await self._servers_for(calls, values, context, stack)
                    await _call_all(calls, servers, events)
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
        while self._shared:
            _, server = self._shared.popitem()
            await server.stop()
        if self._shared_in is not None:
            await self._shared_in.close()
            self._shared_in = None
        if self._folder is not None:
            self._folder.cleanup()
            self._folder = None

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
        if call.server is None and len(self.servers) == 1:
            return next(iter(self.servers))
        if call.server not in self.servers:
            known = ", ".join(self.servers)
            raise ClientError(f"case {case.id}: call of {call.tool}: name its server; known: {known}", "harness")
        return call.server

    async def _servers_for(
        self, calls: list[Call], values: Values, context: TrialContext, stack: AsyncExitStack
    ) -> dict[str, Server]:
        labels = list(dict.fromkeys(str(call.server) for call in calls))
        if self.options.server_lifetime == "shard":
            return {label: await self._shared_server(label, context) for label in labels}
        servers = {}
        for label in labels:
            servers[label] = await self._start(label, values, context)
            stack.push_async_callback(servers[label].stop)
        return servers

    async def _shared_server(self, label: str, context: TrialContext) -> Server:
        async with self._starting:
            server = self._shared.get(label)
            if server is not None and server.alive:
                return server
            if server is not None:
                await server.stop()
            if self._folder is None:
                self._folder = tempfile.TemporaryDirectory(prefix="mst-mcp-")
            # The trial's scratch folder goes with the trial; a shared server needs one that stays.
            home = Path(self._folder.name).resolve()  # noqa: ASYNC240 - one look
            if self._shared_in is None:
                self._shared_in = self.sandbox.enter(Folders(workspace=None, scratch=home))
            lasting = TrialContext(**{**vars(context), "scratch": home, "enclosure": self._shared_in})
            alone = Values(input="", prompt="", workspace=None)
            self._shared[label] = await self._start(label, alone, lasting, default_cwd=home)
            return self._shared[label]

    async def _start(
        self, label: str, values: Values, context: TrialContext, default_cwd: Path | None = None
    ) -> Server:
        # The SDK costs half a second to import: only who calls a server pays it.
        from mst.clients.mcp_server import Server  # noqa: PLC0415 - as above

        spec = self.servers[label]
        seen = context.enclosure.seen
        inside = Values(
            input=values.input,
            prompt=values.prompt,
            workspace=None if values.workspace is None else seen(values.workspace),
            python=context.enclosure.python,
        )
        folder = seen(await place_listed(self.options.files, context))
        argv = [
            substitute(part, inside) for part in resolve_listed([spec.command, *spec.args], self.options.files, folder)
        ]
        cwd = default_cwd or values.workspace
        assert cwd is not None
        env = {
            name: substitute(value, inside) if isinstance(value, str) else value
            for name, value in {**self._env, **spec.env}.items()
        }
        server = Server(
            label=label,
            launch=await context.enclosure.launch(
                argv, cwd=cwd / substitute(spec.cwd or ".", values), env=trial_environment(env, context)
            ),
            line_bytes=context.variant.trial_limits.output_bytes,
        )
        await server.start(timeout_s=START_S)
        return server


async def _call_all(calls: list[Call], servers: dict[str, Server], events: list[Event]) -> None:
    for number, call in enumerate(calls):
        server = servers[str(call.server)]
        try:
            events.append(await server.call(call.tool, call.arguments, number=number))
        except asyncio.CancelledError:
            # A call that never came back belongs to what happened.
            unanswered = Event(kind="tool_call", source="mcp", name=call.tool, server=call.server, id=str(number))
            events.append(unanswered.model_copy(update={"arguments": call.arguments}))
            raise


def _uses_workspace(server: StdioServer) -> bool:
    texts = [server.command, *server.args, server.cwd or "", *(str(value) for value in server.env.values())]
    return any(names_workspace(text) for text in texts)


def _parse_servers(variant: Variant) -> dict[str, StdioServer]:
    where = f"variant {variant.name!r}: servers"
    if not variant.servers:
        raise ConfigError(f"{where}: the mcp client needs at least one server: {{label: {{command: ...}}}}")
    remote = [label for label, server in variant.servers.items() if isinstance(server, dict) and "url" in server]
    if remote:
        raise ConfigError(f"{where}.{remote[0]}: servers at a URL are not available in this version; give a command")
    try:
        return _servers.validate_python(variant.servers)
    except ValidationError as error:
        raise ConfigError(
            *(f"{where}.{'.'.join(map(str, f['loc'][:2]))}: {f['msg']}" for f in error.errors(include_url=False))
        ) from error
