"""Asking models over HTTP through one library: requests, answers, tokens, and what went wrong in words of ours.

The library (`pydantic-ai-slim`) knows the dialects and sorts their errors; retries, waiting, failover and the check of
the answer are decided here, where they are counted and bounded. It is imported when a model is first asked.
"""

from __future__ import annotations

import asyncio
import importlib
import weakref
from dataclasses import dataclass
from typing import Any, TypeAlias

from mst.errors import GraderError
from mst.judges.contract import JudgeContext
from mst.judges.endpoints import ModelOptions
from mst.judges.prompts import Prompt
from mst.model.transcript import Usage
from mst.providers.attempts import ModelFault, bound_s
from mst.providers.load import library as providers
from mst.providers.patience import QUEUE_S, Patience
from mst.providers.spending import priced

CHARACTERS_A_TOKEN = 4
_Connections: TypeAlias = dict[tuple[int, str], Any]
"""By the provider's place and the key."""


@dataclass(frozen=True, kw_only=True)
class Answered:
    """A structured answer and who gave it."""

    value: dict[str, Any]
    usage: Usage | None
    provider: str
    model: str
    metadata: dict[str, Any] | None


class Models:
    """Asks the models of one judge. Connections are kept per event loop and key until `aclose`.

    Args:
        options: which models, and how.
        retries: transport faults that each provider may have.
    """

    def __init__(self, options: ModelOptions, retries: int) -> None:
        self._options = options
        self._retries = retries
        self._endpoints = options.endpoints()
        self._made: weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, _Connections] = weakref.WeakKeyDictionary()

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
            providers().check(endpoint)
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
        patience = Patience(retries=self._retries, limits=context.limits, redact=context.redact)
        for index, endpoint in enumerate(self._endpoints):

            async def send(index: int = index) -> tuple[dict[str, Any], Usage | None]:
                return await self._try(index, prompt, schema, context)

            try:
                found = await patience.ask(endpoint, send, is_last=index == len(self._endpoints) - 1)
            except ModelFault as fault:
                raise GraderError(str(fault), fault.kind) from fault.__cause__
            if found is not None:
                return Answered(
                    value=found[0],
                    usage=priced(found[1], endpoint, context.pricing),
                    provider=endpoint.dialect,
                    model=endpoint.name,
                    metadata={"attempts": patience.faults} if patience.faults else None,
                )
        raise AssertionError("the last provider is never left")

    async def _try(
        self, index: int, prompt: Prompt, schema: dict[str, Any], context: JudgeContext
    ) -> tuple[dict[str, Any], Usage | None]:
        endpoint = self._endpoints[index]
        expected = (len(prompt.system) + len(prompt.user)) // CHARACTERS_A_TOKEN + self._options.max_tokens // 4
        async with context.limits.named(endpoint.limit_name).slot(expected) as slot:
            made = self._model(index, context)  # only now: the key may be renewed while a call waits for its turn
            response = await _library().request(made, prompt, schema, self._options, context.timeout_s)
            usage: Usage | None = response.usage
            if usage is not None and usage.input_tokens is not None and usage.output_tokens is not None:
                slot.used = usage.input_tokens + usage.output_tokens
        return response.value(), usage

    def _model(self, index: int, context: JudgeContext) -> Any:
        models = self._made.setdefault(asyncio.get_running_loop(), {})
        endpoint = self._endpoints[index]
        key = context.secrets.get(endpoint.key_name, "") if endpoint.key_name else "none"
        if (index, key) not in models:
            # one with an earlier key stays: calls may be under way on it
            models[index, key] = providers().Connection(endpoint, key)
        return models[index, key]

    async def aclose(self) -> None:
        """Close the connections of this event loop."""
        for made in self._made.pop(asyncio.get_running_loop(), {}).values():
            await made.close()


def _library() -> Any:
    """The module that knows judges' requests in the model library's terms, imported when a model is first needed."""
    providers()  # says which extra is missing
    return importlib.import_module("mst.judges.library")
