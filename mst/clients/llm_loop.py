"""One trial of the `llm` client: a model and its tools in turn, inside the trial's limits.

Imports the model library, so this module is itself imported only when a model is first asked.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pydantic_ai.messages import ModelRequest, SystemPromptPart, ToolReturnPart, UserPromptPart
from pydantic_ai.models import ModelRequestParameters
from pydantic_ai.tools import ToolDefinition

from mst.clients.contract import ClientResult, TrialContext
from mst.clients.llm_options import LlmOptions
from mst.clients.llm_tools import ServerTool, arguments_of, offered, shortened
from mst.clients.placeholders import Values
from mst.clients.program import usage_limit_of
from mst.errors import ClientError
from mst.model.case import Case
from mst.model.transcript import Event, Transcript, Usage
from mst.model.trial import LimitHit
from mst.process.redact import Redactor
from mst.providers.attempts import ModelFault
from mst.providers.endpoints import Endpoint
from mst.providers.library import Connection, usage_of
from mst.providers.patience import QUEUE_S, Patience
from mst.providers.spending import priced

if TYPE_CHECKING:
    from mst.clients.mcp_servers import Servers
    from mst.clients.mcp_session import Session

CHARACTERS_A_TOKEN = 4
TOO_LONG = ("context length", "context_length", "context window", "prompt is too long", "input token count")
"""Providers have no common code for a conversation that no longer fits; their sentences have one of these."""
CUT, DECLINED = "length", "content_filter"


class _Limit(Exception):
    """A limit ended the trial."""

    def __init__(self, message: str, hit: LimitHit) -> None:
        super().__init__(message)
        self.hit: LimitHit = hit


class _Declined(Exception):
    """The provider takes the conversation no longer."""


@dataclass
class WorkClock:
    """The trial's time: what model, tools and servers take. Waiting for a turn or for a busy provider is not part."""

    limit_s: float
    worked_s: float = 0.0

    @property
    def left_s(self) -> float:
        """How much is left; 0 when there is none."""
        return max(0.0, self.limit_s - self.worked_s)

    @asynccontextmanager
    async def working(self) -> AsyncIterator[None]:
        """Count what is inside, and end it when the time is over.

        Raises:
            _Limit: the time is over.
        """
        began = time.monotonic()
        clock = asyncio.timeout(self.left_s)
        try:
            async with clock:
                yield
        except TimeoutError:
            if not clock.expired():
                raise
            raise _Limit(f"ended at its time limit of {self.limit_s:g} s", "timeout") from None
        finally:
            self.worked_s += time.monotonic() - began


@dataclass(kw_only=True)
class Conversation:
    """One trial. `run` is called once."""

    options: LlmOptions
    endpoint: Endpoint
    connection: Connection
    servers: Servers
    context: TrialContext
    events: list[Event] = field(default_factory=list)
    usages: list[Usage | None] = field(default_factory=list)
    faults: list[str] = field(default_factory=list)
    api_s: float = 0.0
    final: str | None = None
    finish: str | None = None
    answered_as: str | None = None
    called: int = 0

    def __post_init__(self) -> None:
        self._clock = WorkClock(self.context.variant.trial_limits.time_s)
        self._redact = Redactor(self.context.secrets.values()).text
        self._messages: list[Any] = []
        self._sessions: dict[str, Session] = {}
        self._tools: dict[str, ServerTool] = {}
        self._parameters = ModelRequestParameters()

    async def run(self, case: Case, workspace: Path | None) -> ClientResult:
        """Talk until the model answers without calling a tool, or a limit ends it.

        Raises:
            ClientError: `environment`: no answer from the provider, a server that is gone; `harness`: what it was asked
                for cannot be done.
        """
        self._need_price()
        error: str | None = None
        hit: LimitHit | None = None
        is_agents_fault = False
        bound = asyncio.timeout(self._clock.limit_s + QUEUE_S)
        try:
            async with bound, AsyncExitStack() as stack:
                await self._prepare(case, workspace, stack)
                await self._talk()
        except _Limit as limit:
            error, hit = str(limit), limit.hit
        except _Declined as declined:
            error, is_agents_fault = str(declined), True
        except TimeoutError as late:
            if not bound.expired():
                raise
            raise ClientError(f"waited longer than {QUEUE_S:g} s for its turns; see rate_limits") from late
        return self._result(error or self._unfinished(), hit, is_agents_fault=is_agents_fault)

    async def _prepare(self, case: Case, workspace: Path | None, stack: AsyncExitStack) -> None:
        values = Values(input=case.input, prompt=self.context.prompt, workspace=workspace)
        listed: list[ServerTool] = []
        async with self._clock.working():
            self._sessions = await self.servers.for_trial(self.servers.labels, values, self.context, stack)
            for label, session in self._sessions.items():
                listed += [
                    ServerTool(
                        server=label, name=tool.name, description=tool.description or "", schema=tool.input_schema
                    )
                    for tool in await session.tools()
                ]
        self._tools = offered(listed, only=self.options.only_tools, described=self.context.variant.tools)
        self._parameters = ModelRequestParameters(
            function_tools=[
                # Not strict: a provider's stricter form of a schema is not what the server wrote.
                ToolDefinition(
                    name=name, description=tool.description, parameters_json_schema=tool.schema, strict=False
                )
                for name, tool in self._tools.items()
            ]
        )
        system = [SystemPromptPart(self.options.system)] if self.options.system is not None else []
        self._messages = [ModelRequest(parts=[*system, UserPromptPart(self.context.prompt)])]

    async def _talk(self) -> None:
        most = min(self.options.max_turns, self.context.variant.trial_limits.turns or self.options.max_turns)
        while True:
            response = await self._ask()
            self._messages.append(response)
            calls = self._take(response)
            self._keep_limits()
            if not calls:
                return
            if len(self.usages) >= most:
                raise _Limit(f"ended at its limit of {most} turns: the model wanted to go on", "turns")
            answers = [await self._call(call) for call in calls]
            self._messages.append(ModelRequest(parts=answers))

    async def _ask(self) -> Any:
        """The model's next answer; limits of the provider, retries and waits included."""
        patience = Patience(retries=self.options.retries, limits=self.context.limits, redact=self._redact)
        try:
            response = await patience.ask(self.endpoint, self._send)
        except ModelFault as fault:
            raise self._end_of(fault) from fault
        finally:
            self.faults += patience.faults
        usage = usage_of(response)
        self.usages.append(priced(usage, self.endpoint, self.context.pricing))
        return response

    async def _send(self) -> Any:
        said = sum(len(str(event.output or "")) for event in self.events) + len(self.context.prompt)
        expected = said // CHARACTERS_A_TOKEN + self.options.max_tokens // CHARACTERS_A_TOKEN
        async with self.context.limits.named(self.endpoint.limit_name).slot(expected) as slot:
            began = time.monotonic()
            try:
                async with self._clock.working():
                    response = await self.connection.send(
                        self._messages,
                        self._parameters,
                        self.options.settings(),
                        timeout_s=self.options.request_timeout_s,
                    )
            finally:
                self.api_s += time.monotonic() - began
            usage = usage_of(response)
            if usage is not None:
                slot.used = (usage.input_tokens or 0) + (usage.output_tokens or 0)
        return response

    def _take(self, response: Any) -> list[Any]:
        """Note what the model said; the calls that it asks for."""
        self.finish = response.finish_reason
        self.answered_as = response.model_name
        text = "".join(part.content for part in response.parts if part.part_kind == "text")
        calls = [part for part in response.parts if part.part_kind == "tool-call"]
        if text:
            self.events.append(Event(kind="message", name="assistant", output=text))
        if self.finish in {CUT, DECLINED}:
            calls = []  # a call that was cut off is not what the model meant
        if not calls:
            self.final = text
        return calls

    async def _call(self, call: Any) -> ToolReturnPart:
        """Make one call; an unknown tool and unusable arguments are answered as errors, as a server would."""
        self._count_call()
        tool = self._tools.get(call.tool_name)
        common = {"raw_name": call.tool_name, "id": call.tool_call_id}
        try:
            arguments = arguments_of(call.args)
            if tool is None:
                raise ValueError(f"there is no tool {call.tool_name!r}; there are: {', '.join(self._tools) or 'none'}")
        except ValueError as error:
            server = {"name": tool.name, "server": tool.server, "source": "mcp"} if tool else {"name": call.tool_name}
            self.events.append(
                Event.model_validate(
                    {"kind": "tool_call", "arguments": call.args, "output": str(error), "is_error": True}
                    | server
                    | common
                )
            )
            return self._answer(call, str(error), is_error=True)
        unanswered = Event(
            kind="tool_call", source="mcp", name=tool.name, server=tool.server, arguments=arguments, **common
        )
        self.events.append(unanswered)
        async with self._clock.working():
            event = await self._sessions[tool.server].call(tool.name, arguments, call_id=call.tool_call_id)
        self.events[-1] = event.model_copy(update={"raw_name": call.tool_name})
        self._keep_output()
        return self._answer(call, str(event.output), is_error=bool(event.is_error))

    def _answer(self, call: Any, text: str, *, is_error: bool) -> ToolReturnPart:
        return ToolReturnPart(
            tool_name=call.tool_name,
            content=shortened(text, self.options.max_tool_output),
            tool_call_id=call.tool_call_id,
            outcome="failed" if is_error else "success",
        )

    def _count_call(self) -> None:
        most = self.options.max_tool_calls
        if most is not None and self.called >= most:
            raise _Limit(f"ended at its limit of {most} tool calls", "turns")
        self.called += 1

    def _keep_limits(self) -> None:
        self._keep_output()
        reached = usage_limit_of(self._usage(), self.context.variant.trial_limits)
        if reached is not None:
            raise _Limit(*reached)

    def _keep_output(self) -> None:
        most = self.context.variant.trial_limits.output_bytes
        if sum(len(str(event.output or "").encode()) for event in self.events) > most:
            raise _Limit(f"ended at its output limit of {most} bytes", "output")

    def _need_price(self) -> None:
        limit = self.context.variant.trial_limits.cost_usd
        if limit is None:
            return
        one = Usage(input_tokens=1, output_tokens=1)
        found = priced(one, self.endpoint, self.context.pricing)
        if found is None or found.estimated_cost_usd is None:
            model = self.endpoint.model
            raise ClientError(
                f"trial_limits.cost_usd: no price of {model!r} is known; give it under 'pricing'", "harness"
            )

    def _end_of(self, fault: ModelFault) -> Exception:
        if fault.status in {400, 413} and any(words in str(fault).lower() for words in TOO_LONG):
            return _Declined(f"the conversation is too long for the model: {fault}")
        where = f" (at {self.endpoint.address})" if fault.kind in {"transport", "timeout"} else ""
        return ClientError(f"model {fault}{where}", "harness" if fault.kind == "request" else "environment")

    def _unfinished(self) -> str | None:
        if self.finish == DECLINED:
            return "the model declined to answer"
        if self.finish == CUT:
            return f"the model's last answer ended at max_tokens ({self.options.max_tokens})"
        return None

    def _usage(self) -> Usage:
        return total(self.usages, duration_ms=self._clock.worked_s * 1000, api_ms=self.api_s * 1000)

    def _result(self, error: str | None, hit: LimitHit | None, *, is_agents_fault: bool) -> ClientResult:
        return ClientResult(
            transcript=Transcript(
                events=self.events,
                final_text=self.final,
                usage=self._usage(),
                error=error,
                evidence="structured",
            ),
            limit_hit=hit,
            error=error if is_agents_fault else None,
            error_kind="agent" if is_agents_fault else None,
            agent_duration_ms=self._clock.worked_s * 1000,
            metadata={
                "provider": self.endpoint.dialect,
                "model": self.endpoint.name,
                "answeredAs": self.answered_as,
                "finishReason": self.finish,
                "tools": list(self._tools),
            },
            diagnostics={"requestsAgain": self.faults[-20:]} if self.faults else None,
        )


def total(usages: list[Usage | None], *, duration_ms: float, api_ms: float) -> Usage:
    """What all answers used. A count that one of them does not know is not known; no mention of a cache means none."""
    known = [usage for usage in usages if usage is not None]
    whole = len(known) == len(usages) and bool(usages)

    def summed(name: str, *, partly: bool = False) -> Any:
        values = [getattr(usage, name) for usage in known]
        if not whole or (not partly and None in values) or all(value is None for value in values):
            return None
        return sum(value for value in values if value is not None)

    return Usage.summed(
        input_tokens=summed("input_tokens"),
        output_tokens=summed("output_tokens"),
        reasoning_output_tokens=summed("reasoning_output_tokens", partly=True),
        cache_read_input_tokens=summed("cache_read_input_tokens", partly=True),
        cache_creation_input_tokens=summed("cache_creation_input_tokens", partly=True),
        estimated_cost_usd=summed("estimated_cost_usd"),
        duration_ms=round(duration_ms, 3),
        duration_api_ms=round(api_ms, 3),
        turns=len(usages),
    )
