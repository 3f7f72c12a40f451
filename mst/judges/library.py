"""The model library (`pydantic-ai-slim`) behind one class: a request, an answer of its own form, faults of ours.

Imports the library, so this module is itself imported only when a model is first needed.
"""

from __future__ import annotations

import asyncio
import importlib
import json
import math
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import httpx2
from pydantic_ai import exceptions as known
from pydantic_ai.direct import model_request
from pydantic_ai.messages import ModelRequest, SystemPromptPart, UserPromptPart
from pydantic_ai.models import ModelRequestParameters
from pydantic_ai.output import OutputObjectDefinition
from pydantic_ai.tools import ToolDefinition

from mst.errors import GradingFault
from mst.judges import strictjson
from mst.judges.attempts import ModelFault
from mst.judges.endpoints import Endpoint, ModelOptions, missing_package
from mst.judges.prompts import Prompt
from mst.model.transcript import Usage

ANSWER_CHARACTERS = 262_144
CONNECTION_S, CONNECT_S = 600.0, 10.0
"""Of a connection itself; every request has a bound of its own."""

KINDS: tuple[tuple[type[Exception], GradingFault], ...] = (
    (known.ModelAuthenticationError, "auth"),
    (known.ModelQuotaExceededError, "quota"),
    (known.ModelRateLimitError, "rate_limit"),
    (known.ModelTimeoutError, "timeout"),
    (known.ModelConnectionError, "transport"),
    (known.ModelServerError, "server"),
    (known.ModelUnavailableError, "server"),
)


@dataclass(frozen=True)
class Response:
    """An answer as the library read it."""

    raw: Any
    output: str

    @property
    def usage(self) -> Usage | None:
        """Tokens; None when the provider did not say."""
        return _usage(self.raw.usage)

    def value(self) -> dict[str, Any]:
        """The structured answer.

        Raises:
            ModelFault: the model declined, ended early, or answered in another form.
        """
        return _value(self.raw, self.output)


class Connection:
    """One model with its connection. Tries once: retries are counted by the caller."""

    def __init__(self, endpoint: Endpoint, key: str) -> None:
        self._client, self._model = CLIENTS[endpoint.dialect](*_modules(endpoint), endpoint, key)

    async def request(
        self, prompt: Prompt, schema: dict[str, Any], options: ModelOptions, timeout_s: float
    ) -> Response:
        """One request, once.

        Raises:
            ModelFault: no answer.
        """
        system = prompt.system
        if options.output == "prompted":
            system += (
                f"\n\nAnswer with one JSON object and nothing else, valid under this schema:\n{json.dumps(schema)}"
            )
        messages = [ModelRequest(parts=[SystemPromptPart(system), UserPromptPart(prompt.user)])]
        settings: dict[str, Any] = {"max_tokens": options.max_tokens, "timeout": timeout_s}
        if options.temperature is not None:
            settings["temperature"] = options.temperature
        try:
            async with asyncio.timeout(timeout_s):
                raw = await model_request(
                    self._model,
                    messages,
                    model_settings=settings,  # type: ignore[arg-type]  # a typed dict of the library
                    model_request_parameters=_parameters(schema, options.output),
                )
        except TimeoutError as error:
            raise ModelFault(f"did not end within {timeout_s:g} s", "timeout") from error
        except known.ModelAPIError as error:
            raise _fault(error, timeout_s) from error
        except known.UnexpectedModelBehavior as error:
            raise ModelFault(f"the answer cannot be read: {error}", "answer") from error
        except known.UserError as error:
            raise ModelFault(str(error), "request") from error
        return Response(raw, options.output)

    async def close(self) -> None:
        """Close the connection."""
        await self._client.close()


def _usage(found: Any) -> Usage | None:
    """Tokens of one answer; None when the provider did not say, which the library shows as zeros."""
    if getattr(found, "unmeasured_requests", 0) or not (found.input_tokens or found.output_tokens):
        return None
    return Usage(
        input_tokens=found.input_tokens,
        output_tokens=found.output_tokens,
        cache_read_input_tokens=found.cache_read_tokens or None,
        cache_creation_input_tokens=found.cache_write_tokens or None,
        turns=1,
    )


def _value(response: Any, output: str) -> dict[str, Any]:
    """The structured answer of a response.

    Raises:
        ModelFault: the model declined, ended early, or answered in another form.
    """
    calls = [part for part in response.parts if part.part_kind == "tool-call"]
    text = "".join(part.content for part in response.parts if part.part_kind == "text")
    if response.finish_reason == "content_filter":
        raise ModelFault(f"the model declined to judge{': ' + text if text else ''}", "refusal")
    if response.finish_reason == "length":
        raise ModelFault("the answer ended at max_tokens; raise it", "answer")
    if output == "tool" and not calls:
        raise ModelFault(f"the model did not answer in the form asked for, but: {text[:200]!r}", "answer")
    found: Any = calls[0].args if output == "tool" else _unfenced(text)
    try:
        if isinstance(found, str):
            found = strictjson.loads(found[:ANSWER_CHARACTERS])
        strictjson.check(found)
    except ValueError as error:
        raise ModelFault(f"the model's answer is {error}", "answer") from error
    if not isinstance(found, dict):
        raise ModelFault("the model's answer is no JSON object", "answer")
    return found


def _unfenced(text: str) -> str:
    """JSON out of the code fence that models like to put around it."""
    stripped = text.strip()
    if stripped.startswith("```") and stripped.endswith("```"):
        return stripped[3:-3].removeprefix("json").strip()
    return stripped


def _parameters(schema: dict[str, Any], output: str) -> Any:
    if output == "tool":
        tool = ToolDefinition(
            name="verdict", parameters_json_schema=schema, description="Give your verdict.", kind="output"
        )
        return ModelRequestParameters(output_mode="tool", output_tools=[tool], allow_text_output=False)
    if output == "native":
        definition = OutputObjectDefinition(json_schema=schema, name="verdict")
        return ModelRequestParameters(output_mode="native", output_object=definition)
    return ModelRequestParameters(output_mode="text")


def _fault(error: Any, timeout_s: float) -> ModelFault:
    status = getattr(error, "status_code", None)
    kind: GradingFault = next((name for cls, name in KINDS if isinstance(error, cls)), "request")
    if kind == "request" and status is not None:
        kind = "server" if status >= 500 else "timeout" if status == 408 else "request"
    if kind == "timeout" and status is None:
        return ModelFault(f"did not end within {timeout_s:g} s", "timeout")
    said = _said(error)
    message = f"HTTP {status}: {said}" if status is not None else said
    return ModelFault(message, kind, status=status, retry_after_s=_retry_after_s(error))


def _retry_after_s(error: Any) -> float | None:
    """How long the provider said to wait. The library reads whole seconds and dates; some gateways send fractions."""
    told: float | None = getattr(error, "retry_after", None)
    raw = (getattr(error, "headers", None) or {}).get("retry-after")
    if told is not None or raw is None:
        return told
    with suppress(ValueError):
        seconds = float(raw)
        return seconds if 0 <= seconds < math.inf else None
    return None


def _said(error: Any) -> str:
    """The provider's own sentence, out of whichever form its error has."""
    body = getattr(error, "body", None)
    inner = body.get("error", body) if isinstance(body, dict) else body
    if isinstance(inner, dict) and isinstance(inner.get("message"), str):
        return str(inner["message"])
    return str(inner) if inner else str(error)


def check(endpoint: Endpoint) -> None:
    """Make sure that the packages for an endpoint are here.

    Raises:
        ConfigError: naming the extra.
    """
    _modules(endpoint)


def _modules(endpoint: Endpoint) -> tuple[Any, Any, Any]:
    """The library's models and providers of a dialect, and the vendor's own package."""
    vendor = "google.genai" if endpoint.dialect == "google" else endpoint.dialect
    try:
        return (
            importlib.import_module(f"pydantic_ai.models.{endpoint.dialect}"),
            importlib.import_module(f"pydantic_ai.providers.{endpoint.dialect}"),
            importlib.import_module(vendor),
        )
    except ImportError as error:
        raise missing_package(error) from error


def _openai(models: Any, providers: Any, vendor: Any, endpoint: Endpoint, key: str) -> tuple[Any, Any]:
    client = vendor.AsyncOpenAI(base_url=endpoint.address, api_key=key, max_retries=0)
    return client, models.OpenAIChatModel(endpoint.name, provider=providers.OpenAIProvider(openai_client=client))


def _anthropic(models: Any, providers: Any, vendor: Any, endpoint: Endpoint, key: str) -> tuple[Any, Any]:
    client = vendor.AsyncAnthropic(base_url=endpoint.address, api_key=key, max_retries=0)
    return client, models.AnthropicModel(endpoint.name, provider=providers.AnthropicProvider(anthropic_client=client))


class _GoogleClient:
    """Google's client leaves a connection that it was given to who gave it; this closes it."""

    def __init__(self, http: Any) -> None:
        self._http = http

    async def close(self) -> None:
        await self._http.aclose()


def _google(models: Any, providers: Any, _: Any, endpoint: Endpoint, key: str) -> tuple[Any, Any]:
    http = httpx2.AsyncClient(timeout=httpx2.Timeout(CONNECTION_S, connect=CONNECT_S))
    provider = providers.GoogleProvider(api_key=key, base_url=endpoint.address, http_client=http)
    return _GoogleClient(http), models.GoogleModel(endpoint.name, provider=provider)


CLIENTS: dict[str, Callable[[Any, Any, Any, Endpoint, str], tuple[Any, Any]]] = {
    "openai": _openai,
    "anthropic": _anthropic,
    "google": _google,
}
