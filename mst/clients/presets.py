"""What the presets of coding agents share: options, the key proxy, MCP servers, limits, the end of a trial."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import Any, ClassVar, Literal

from pydantic import Field, TypeAdapter, ValidationError

from mst.agents.claude_code import ClaudeCode as ClaudeCodeAgent
from mst.agents.codex import Codex as CodexAgent
from mst.agents.contract import Agent, Given, Plan, StdioServer
from mst.agents.keyproxy import KeyProxy
from mst.agents.mini_swe_agent import MiniSweAgent as MiniAgent
from mst.clients.contract import ClientResult, Needs, TrialContext
from mst.clients.options import (
    Environment,
    Options,
    SecretRef,
    fill_environment,
    parse_options,
    secret_names,
    variant_environment,
)
from mst.clients.placeholders import Values, substitute
from mst.clients.program import (
    declared_path,
    diagnostics_of,
    limit_hit_of,
    program_faults,
    sandbox_of,
    trial_environment,
    usage_limit_of,
)
from mst.errors import ClientError, ConfigError, ProgramError
from mst.model.base import Model
from mst.model.case import Case, Variant
from mst.model.transcript import Evidence
from mst.model.trial import LimitHit
from mst.process.child import ChildResult


class AgentOptions(Options):
    """Options of agent presets."""

    program: str | None = None
    """The agent's program; its usual name, found on the search path, unless given."""
    base_url: str | None = Field(default=None, pattern=r"^https?://")
    """Of the model's API; the provider's own unless given."""
    key: SecretRef | None = None
    """The secret that holds the provider's key; the provider's usual name unless given."""
    key_proxy: bool = True
    """Keep the key out of the agent's reach: a proxy of the trial on loopback puts it in. False: the agent gets it."""
    args: list[str] = []
    """Further arguments, at the end."""
    env: Environment = {}


class ServerOptions(Options):
    """An MCP server as an agent starts it."""

    command: str
    args: list[str] = []
    env: Environment = {}
    image: str | None = None
    """With `sandbox.kind: docker`: the server's own image; that of the trial unless given."""


_servers: TypeAdapter[dict[str, ServerOptions]] = TypeAdapter(dict[str, ServerOptions])


class AgentPreset:
    """A client that runs a coding agent. Subclasses say which."""

    Options: ClassVar[type[Model]] = AgentOptions
    evidence: ClassVar[Evidence] = "observed"
    starts_from: ClassVar[Literal["fixture", "solution"]] = "fixture"
    needs: ClassVar[Needs] = "workspace"
    probe_input = "Reply with the one word: ready"

    AGENT: ClassVar[Agent]

    def __init__(self, variant: Variant) -> None:
        self.options = parse_options(AgentOptions, variant)
        self.variant = variant
        self.sandbox = sandbox_of(variant)
        self.servers = _parse_servers(variant)
        self._env: Environment = {**variant_environment(variant), **self.options.env}
        self._key = self.options.key or SecretRef(secret=self.AGENT.KEY)
        if self.servers and not self.AGENT.TAKES_SERVERS:
            raise ConfigError(f"variant {variant.name!r}: {variant.client} cannot use MCP servers; remove `servers`")

    def secrets_needed(self) -> list[str]:
        """The key and what is named in `env`, also of servers."""
        named = {self._key.secret, *secret_names(self._env)}
        return sorted(named.union(*(secret_names(server.env) for server in self.servers.values())))

    def preflight(self) -> list[str]:
        """A sandbox, a program or a model that is missing."""
        faults = [*self.sandbox.faults(), *program_faults(self.programs(), [], self._env, self.sandbox)]
        if self.AGENT.NEEDS_MODEL and not self.variant.model:
            faults.append(f"variant {self.variant.name!r}: {self.variant.client} needs a `model`")
        if not self.options.key_proxy and self.sandbox.options.reach == "none":
            faults.append("key_proxy: false needs a sandbox with a network: without one nothing reaches the model")
        doors = self.options.key_proxy or self.servers
        if self.sandbox.options.kind == "docker" and doors and (fault := self.sandbox.program_fault("python3")):
            faults.append(f"the key proxy and MCP servers need a Python in the image: {fault}")
        for label, server in self.servers.items():
            if server.image is not None and (fault := self.sandbox.program_fault(server.command, image=server.image)):
                faults.append(f"server {label}: {fault}")
        return faults

    def programs(self) -> dict[str, str | None]:
        """See `StartsPrograms`: the agent, and its MCP servers."""
        own = [server.command for server in self.servers.values() if server.image is None]
        names = [self.options.program or self.AGENT.PROGRAM, *own]
        return {name: declared_path(self._env) for name in dict.fromkeys(names)}

    async def run(self, case: Case, workspace: Path | None, context: TrialContext) -> ClientResult:
        """See `Client.run`."""
        if workspace is None:
            raise ClientError(f"{self.variant.client} was given no workspace", "harness")
        stop: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        url, key, prefix = await self._way_to_model(context, stop)
        home = context.scratch / "home"
        inside = context.enclosure
        values = Values(input=case.input, prompt=context.prompt, workspace=inside.seen(workspace), python=inside.python)
        servers, before = await self._servers(values, workspace, context)
        given = Given(
            prompt=context.prompt,
            model=context.variant.model,
            url=url,
            key=key,
            home=context.enclosure.seen(home),
            servers=servers,
            limits=context.variant.trial_limits,
        )
        child = await self._start(self.AGENT.plan(given), [*prefix, *before], workspace, context, stop)
        return self._result(child, home, context)

    async def close(self) -> None:
        """Nothing outlives a trial."""

    async def _way_to_model(self, context: TrialContext, stop: asyncio.Future[str]) -> tuple[str, str, Sequence[str]]:
        """URL and key for the agent, and what must stand before its arguments."""
        upstream = self.options.base_url or self.AGENT.URL
        key = context.secrets[self._key.secret]
        if not self.options.key_proxy:
            return upstream, key, []

        def reached(limit: LimitHit) -> None:
            if not stop.done():
                stop.set_result(limit)

        proxy = KeyProxy(upstream=upstream, key=key, limits=context.variant.trial_limits, reached=reached)
        door = await context.enclosure.door(proxy.serve)
        return f"http://127.0.0.1:{door.port}", proxy.token, door.prefix

    async def _start(
        self, plan: Plan, prefix: Sequence[str], workspace: Path, context: TrialContext, stop: asyncio.Future[str]
    ) -> ChildResult:
        env = {**plan.env, **trial_environment(self._env, context)}
        plan.write_files(context.scratch / "home")
        limits = context.variant.trial_limits
        try:
            return await context.enclosure.run(
                [*prefix, self.options.program or plan.argv[0], *plan.argv[1:], *self.options.args],
                cwd=workspace,
                env=env,
                stdin=plan.stdin,
                timeout_s=limits.time_s,
                output_bytes=limits.output_bytes,
                stop=stop,
            )
        except ProgramError as error:
            raise ClientError(str(error)) from error

    async def _servers(
        self, values: Values, workspace: Path, context: TrialContext
    ) -> tuple[dict[str, StdioServer], list[str]]:
        """What the agent starts for its servers, by label, and what must stand before its own arguments."""
        found: dict[str, StdioServer] = {}
        before: list[str] = []
        for label, server in self.servers.items():
            beside = await context.enclosure.beside(
                [substitute(part, values) for part in (server.command, *server.args)],
                cwd=workspace,
                env=fill_environment(server.env, context.secrets),
                image=server.image,
            )
            found[label] = StdioServer(argv=beside.argv, env=beside.env)
            before += beside.prefix
        return found, before

    def _result(self, child: ChildResult, home: Path, context: TrialContext) -> ClientResult:
        limits = context.variant.trial_limits
        transcript, unused = self.AGENT.read(child.stdout, home, limits.output_bytes)
        reached = limit_hit_of(child, limits) or usage_limit_of(transcript.usage, limits)
        own = self.AGENT.own_limit(transcript)
        if reached is None and own is not None:
            reached = f"ended at its limit of {own}", own
        error = None
        if reached is None and child.exit_code != 0:
            how = f"signal {-child.exit_code}" if child.exit_code < 0 else f"exit code {child.exit_code}"
            error = f"the agent ended with {how}"
        said = reached[0] if reached is not None else error
        if said is not None:
            before = f"{transcript.error}; " if transcript.error else ""
            transcript = transcript.model_copy(update={"error": before + said})
        diagnostics: dict[str, Any] = diagnostics_of(child)
        if unused:
            diagnostics["transcriptLinesUnused"] = unused
        return ClientResult(
            transcript=transcript,
            exit_code=child.exit_code,
            limit_hit=None if reached is None else reached[1],
            error=error,
            error_kind=None if error is None else "agent",
            agent_duration_ms=child.duration_ms,
            diagnostics=diagnostics or None,
        )


def _parse_servers(variant: Variant) -> dict[str, ServerOptions]:
    try:
        return _servers.validate_python(variant.servers)
    except ValidationError as error:
        where = f"variant {variant.name!r}: servers"
        raise ConfigError(
            *(f"{where}.{'.'.join(map(str, f['loc'][:2]))}: {f['msg']}" for f in error.errors(include_url=False))
        ) from error


class ClaudeCode(AgentPreset):
    """Claude Code."""

    AGENT: ClassVar[Agent] = ClaudeCodeAgent()


class Codex(AgentPreset):
    """Codex."""

    AGENT: ClassVar[Agent] = CodexAgent()


class MiniSweAgent(AgentPreset):
    """mini-swe-agent."""

    AGENT: ClassVar[Agent] = MiniAgent()
