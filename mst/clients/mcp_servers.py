"""The MCP servers of a variant: how they are declared, what is wrong with them, and sessions with them in a trial."""

from __future__ import annotations

import asyncio
import importlib.util
import tempfile
from collections.abc import Iterable
from contextlib import AsyncExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from pydantic import Field, ValidationError

from mst.clients.contract import TrialContext
from mst.clients.options import (
    Environment,
    EnvValue,
    ListedFiles,
    Options,
    fill_environment,
    secret_names,
    variant_environment,
)
from mst.clients.placeholders import Values, names_workspace, substitute
from mst.clients.program import (
    declared_path,
    listed_paths,
    place_listed,
    program_faults,
    resolve_listed,
    sandbox_of,
    trial_environment,
)
from mst.errors import ConfigError
from mst.model.case import Variant
from mst.process.scratch import scratch_prefix
from mst.sandboxes.contract import Enclosure, Folders

if TYPE_CHECKING:
    from mst.clients.mcp_session import Session

Lifetime = Literal["trial", "shard"]
START_S = 60.0
"""A server that has not answered the handshake by then is taken for dead."""
HEADER = r"^[!#$%&'*+.^_`|~0-9A-Za-z-]+$"


class StdioServer(Options):
    """How one server is started."""

    command: str
    args: list[str] = []
    env: Environment = {}
    cwd: str | None = None
    """The workspace unless given; relative to it."""
    image: str | None = None
    """With `sandbox.kind: docker`: the server's own image; that of the trial unless given."""


class UrlServer(Options):
    """A server that somebody else runs, over streamable HTTP."""

    url: Annotated[str, Field(pattern=r"^https?://[^\s@]+$")]
    headers: dict[Annotated[str, Field(pattern=HEADER)], EnvValue] = {}
    """`NAME: value` or `NAME: {secret: NAME}`; what a secret holds is the whole value, `Bearer` included."""


AnyServer = StdioServer | UrlServer


class Servers:
    """All servers of a variant. Sessions are a trial's own, or shared by all trials until `close`.

    Args:
        variant: declares them.
        files: files beside the config that server programs need.
        lifetime: `shard`: one session for all trials, without a workspace of its own.

    Raises:
        ConfigError: a declaration is wrong; the message has the server's label.
    """

    def __init__(self, variant: Variant, *, files: ListedFiles, lifetime: Lifetime) -> None:
        self.declared = _parse(variant)
        self.sandbox = sandbox_of(variant)
        self._files = files
        self._lifetime = lifetime
        self._env = variant_environment(variant)
        self._shared: dict[str, Session] = {}
        self._shared_in: Enclosure | None = None
        self._starting = asyncio.Lock()
        self._folder: tempfile.TemporaryDirectory[str] | None = None

    @property
    def labels(self) -> list[str]:
        """Labels in the order of the config."""
        return list(self.declared)

    def secrets_needed(self) -> list[str]:
        """Names in the variant's `env` and the servers' `env` and `headers`, sorted."""
        own = [server.env if isinstance(server, StdioServer) else server.headers for server in self.declared.values()]
        return sorted({name for env in [self._env, *own] for name in secret_names(env)})

    def programs(self) -> dict[str, str | None]:
        """See `StartsPrograms`; files that the options list are told by their content there."""
        listed = set(listed_paths(self._files))
        return {
            server.command: declared_path({**self._env, **server.env})
            for server in self.declared.values()
            if isinstance(server, StdioServer)
            and server.image is None
            and server.command.removeprefix("./") not in listed
        }

    def faults(self) -> list[str]:
        """Programs that are not installed, servers that can't be shared, and a missing `mst[mcp]`."""
        faults = self.sandbox.faults()
        if self.declared and importlib.util.find_spec("mcp") is None:
            faults.append("MCP servers need the package 'mcp': pip install 'mst[mcp]'")
        for label, server in self.declared.items():
            if isinstance(server, UrlServer):
                continue
            env = {**self._env, **server.env}
            found = program_faults([server.command], self._files, env, self.sandbox, image=server.image)
            faults += [f"server {label}: {fault}" for fault in found]
            if self._lifetime == "shard" and _uses_workspace(server):
                faults.append(f"server {label}: with server_lifetime: shard there is no {{{{workspace}}}}; remove it")
        return faults

    async def for_trial(
        self, labels: Iterable[str], values: Values, context: TrialContext, stack: AsyncExitStack
    ) -> dict[str, Session]:
        """Sessions with some servers, by label. Those of the trial's own end with the stack.

        Raises:
            ClientError: one can't be started or reached; nothing of it is left running.
        """
        wanted = list(dict.fromkeys(labels))
        if self._lifetime == "shard":
            return {label: await self._shared_session(label, context) for label in wanted}
        sessions = {}
        for label in wanted:
            sessions[label] = await self._start(label, values, context)
            stack.push_async_callback(sessions[label].stop)
        return sessions

    async def close(self) -> None:
        """End the shared sessions. Safe to call twice."""
        while self._shared:
            _, session = self._shared.popitem()
            await session.stop()
        if self._shared_in is not None:
            await self._shared_in.close()
            self._shared_in = None
        if self._folder is not None:
            self._folder.cleanup()
            self._folder = None

    async def _shared_session(self, label: str, context: TrialContext) -> Session:
        async with self._starting:
            session = self._shared.get(label)
            if session is not None and session.alive:
                return session
            if session is not None:
                await session.stop()
            if self._folder is None:
                self._folder = tempfile.TemporaryDirectory(prefix=scratch_prefix("mcp"))
            # The trial's scratch folder goes with the trial; a shared server needs one that stays.
            home = Path(self._folder.name).resolve()  # noqa: ASYNC240 - one look
            if self._shared_in is None:
                self._shared_in = self.sandbox.enter(Folders(workspace=None, scratch=home))
            lasting = TrialContext(**{**vars(context), "scratch": home, "enclosure": self._shared_in})
            alone = Values(input="", prompt="", workspace=None)
            self._shared[label] = await self._start(label, alone, lasting)
            return self._shared[label]

    async def _start(self, label: str, values: Values, context: TrialContext) -> Session:
        server = self.declared[label]
        session = (
            self._remote(label, server, context)
            if isinstance(server, UrlServer)
            else await self._process(label, server, values, context)
        )
        await session.start(timeout_s=START_S)
        return session

    def _remote(self, label: str, server: UrlServer, context: TrialContext) -> Session:
        from mst.clients.mcp_http import RemoteServer  # noqa: PLC0415 - the SDK costs half a second to import

        return RemoteServer(
            label=label,
            url=server.url,
            headers=fill_environment(server.headers, context.secrets),
            message_bytes=context.variant.trial_limits.output_bytes,
        )

    async def _process(self, label: str, spec: StdioServer, values: Values, context: TrialContext) -> Session:
        from mst.clients.mcp_server import Server  # noqa: PLC0415 - the SDK costs half a second to import

        seen = context.enclosure.seen
        inside = Values(
            input=values.input,
            prompt=values.prompt,
            workspace=None if values.workspace is None else seen(values.workspace),
            python=context.enclosure.python,
        )
        folder = seen(await place_listed(self._files, context))
        argv = resolve_listed([spec.command, *spec.args], self._files, folder)
        argv = [substitute(argument, inside) for argument in argv]
        cwd = values.workspace or context.scratch
        env = {
            name: substitute(value, inside) if isinstance(value, str) else value
            for name, value in {**self._env, **spec.env}.items()
        }
        return Server(
            label=label,
            launch=await context.enclosure.launch(
                argv,
                cwd=cwd / substitute(spec.cwd or ".", values),
                env=trial_environment(env, context),
                image=spec.image,
            ),
            line_bytes=context.variant.trial_limits.output_bytes,
        )


def _uses_workspace(server: StdioServer) -> bool:
    texts = [server.command, *server.args, server.cwd or "", *(str(value) for value in server.env.values())]
    return any(names_workspace(text) for text in texts)


def _parse(variant: Variant) -> dict[str, AnyServer]:
    found: dict[str, AnyServer] = {}
    faults: list[str] = []
    for label, written in variant.servers.items():
        schema = UrlServer if isinstance(written, dict) and "url" in written else StdioServer
        try:
            found[label] = schema.model_validate(written)
        except ValidationError as error:
            where = f"variant {variant.name!r}: servers.{label}"
            seen = {".".join(map(str, fault["loc"][:2])): fault["msg"] for fault in error.errors(include_url=False)}
            faults += [f"{where}.{key}: {message}" if key else f"{where}: {message}" for key, message in seen.items()]
    if faults:
        raise ConfigError(*faults)
    return found
