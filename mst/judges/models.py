"""Asking models over HTTP through one library: requests, answers, tokens, and what went wrong in words of ours.

The library (`pydantic-ai-slim`) knows the dialects and sorts their errors; retries, waiting, failover and the check of
the answer are decided here, where they are counted and bounded. It is imported when a model is first asked.
"""

from __future__ import annotations

import asyncio
import importlib
import weakref
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from mst.errors import GraderError
from mst.judges.attempts import Again, GiveUp, ModelFault, after, bound_s
from mst.judges.contract import JudgeContext
from mst.judges.endpoints import Endpoint, ModelOptions, missing_package
from mst.judges.prompts import Prompt
from mst.model.transcript import Usage

CHARACTERS_A_TOKEN = 4
SHOWN_ERROR_CHARACTERS = 300
QUEUE_S = 3600.0
"""The longest that a call may wait for its turn under the config's rate limits."""


@dataclass(frozen=True, kw_only=True)
class Answered:
    """A structured answer and who gave it."""

    value: dict[str, Any]
    usage: Usage | None
    provider: str
    model: str
    metadata: dict[str, Any] | None


@dataclass
class _Tally:
    """What one call met, over all its tries."""

    faults: list[str] = field(default_factory=list)


class Models:
    """Asks the models of one judge. Connections are kept per event loop until `aclose`.

    Args:
        options: which models, and how.
        retries: transport faults that each provider may have.
    """

    def __init__(self, options: ModelOptions, retries: int) -> None:
        self._options = options
        self._retries = retries
        self._endpoints = options.endpoints()
        self._made: weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, dict[int, Any]] = weakref.WeakKeyDictionary()

    def bound_s(self, timeout_s: float) -> float:
        """The longest that one call may take."""
        return QUEUE_S + bound_s(timeout_s, retries=self._retries, providers=len(self._endpoints))

    async def preflight(self, context: JudgeContext) -> None:
        """Check that the library and the keys are here; with `probe`, ask the first model once.

        Raises:
            ConfigError: the library is missing.
            GraderError: a key is missing, or the probe failed.
        """
        names = [endpoint.key_name for endpoint in self._endpoints if endpoint.key_name is not None]
        absent = [name for name in dict.fromkeys(names) if not context.secrets.get(name)]
        if absent:
            raise GraderError(f"no value for {', '.join(absent)}; give it in the secrets file", "auth")
        for endpoint in self._endpoints:
            _library().check(endpoint)
        if self._options.probe:
            await self._probe(context)

    async def _probe(self, context: JudgeContext) -> None:
        schema = {"type": "object", "properties": {"ok": {"type": "boolean"}}, "required": ["ok"]}
        prompt = Prompt(system="Answer that you are there.", user="Are you there?")
        try:
            await self._try(0, prompt, schema, context)
        except ModelFault as fault:
            if fault.kind not in {"answer", "refusal"}:
                raise GraderError(f"probe: {context.redact(str(fault))}", fault.kind) from fault

    async def ask(self, prompt: Prompt, schema: dict[str, Any], context: JudgeContext) -> Answered:
        """Ask for an answer of a form.

        Raises:
            GraderError: no usable answer, with its kind.
        """
        tally = _Tally()
        for index, endpoint in enumerate(self._endpoints):
            answered = await self._ask_one(index, endpoint, prompt, schema, context, tally)
            if answered is not None:
                return answered
        raise AssertionError("the last provider is never left")

    async def _ask_one(
        self,
        index: int,
        endpoint: Endpoint,
        prompt: Prompt,
        schema: dict[str, Any],
        context: JudgeContext,
        tally: _Tally,
    ) -> Answered | None:
        """The answer of one provider; None when it is left for the next one."""
        retried = told = 0
        while True:
            try:
                value, usage = await self._try(index, prompt, schema, context)
            except ModelFault as fault:
                said = context.redact(str(fault))[:SHOWN_ERROR_CHARACTERS]
                tally.faults.append(f"{endpoint.model}: {said}")
                step = after(
                    fault,
                    retries_left=self._retries - retried,
                    retried=retried,
                    told_waits=told,
                    is_last=index == len(self._endpoints) - 1,
                )
                if isinstance(step, GiveUp):
                    raise GraderError(_last_words(tally, retried, told), fault.kind) from fault
                if not isinstance(step, Again):
                    return None
                told += step.told
                retried += not step.told
                if step.told:
                    context.limits.named(endpoint.limit_name).pause(step.wait_s)
                await asyncio.sleep(step.wait_s)
                continue
            return Answered(
                value=value,
                usage=priced(usage, endpoint, context.pricing),
                provider=endpoint.dialect,
                model=endpoint.name,
                metadata={"attempts": tally.faults} if tally.faults else None,
            )

    async def _try(
        self, index: int, prompt: Prompt, schema: dict[str, Any], context: JudgeContext
    ) -> tuple[dict[str, Any], Usage | None]:
        endpoint = self._endpoints[index]
        made = self._model(index, context)
        expected = (len(prompt.system) + len(prompt.user)) // CHARACTERS_A_TOKEN + self._options.max_tokens // 4
        async with context.limits.named(endpoint.limit_name).slot(expected) as slot:
            response = await made.request(prompt, schema, self._options, context.timeout_s)
            usage: Usage | None = response.usage
            if usage is not None and usage.input_tokens is not None and usage.output_tokens is not None:
                slot.used = usage.input_tokens + usage.output_tokens
        return response.value(), usage

    def _model(self, index: int, context: JudgeContext) -> Any:
        models = self._made.setdefault(asyncio.get_running_loop(), {})
        if index not in models:
            endpoint = self._endpoints[index]
            key = context.secrets.get(endpoint.key_name, "") if endpoint.key_name else "none"
            models[index] = _library().Connection(endpoint, key)
        return models[index]

    async def aclose(self) -> None:
        """Close the connections of this event loop."""
        for made in self._made.pop(asyncio.get_running_loop(), {}).values():
            await made.close()


def priced(usage: Usage | None, endpoint: Endpoint, pricing: Mapping[str, Any]) -> Usage | None:
    """Usage with what it cost by the config's prices, when the model has any. Prices are USD per million tokens."""
    price = pricing.get(endpoint.model) or pricing.get(endpoint.name)
    if usage is None or not price or usage.input_tokens is None or usage.output_tokens is None:
        return usage
    if price.get("input") is None or price.get("output") is None:
        return usage
    read, made = usage.cache_read_input_tokens or 0, usage.cache_creation_input_tokens or 0
    fresh = max(0, usage.input_tokens - read - made)
    cost = fresh * price["input"] + usage.output_tokens * price["output"]
    cost += read * _or(price.get("cache_read"), price["input"]) + made * _or(price.get("cache_write"), price["input"])
    return usage.model_copy(update={"estimated_cost_usd": cost / 1_000_000})


def _or(value: float | None, otherwise: float) -> float:
    return otherwise if value is None else value


def _last_words(tally: _Tally, retried: int, told: int) -> str:
    """What the last provider said, then what those before it said; each once."""
    tried = f" after {retried} retries" if retried else ""
    waited = f" after waiting {told} times as told" if told else ""
    last = tally.faults[-1]
    before = [fault for fault in dict.fromkeys(tally.faults[:-1]) if fault != last]
    return f"{last}{tried}{waited}" + (f" (before: {'; '.join(before)})" if before else "")


def _library() -> Any:
    """The module that knows the model library, imported when a model is first needed.

    Raises:
        ConfigError: the extra is missing.
    """
    try:
        return importlib.import_module("mst.judges.library")
    except ModuleNotFoundError as error:
        raise missing_package(error) from error
