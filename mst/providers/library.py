"""The model library (`pydantic-ai-slim`) behind one class: one request, one answer of its own form, faults of ours.

Imports the library, so this module is itself imported only when a model is first needed.
"""

from __future__ import annotations

import asyncio
import importlib
import math
import warnings
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Any

import httpx2
from pydantic_ai import UsageExtractionFailedWarning
from pydantic_ai import exceptions as known
from pydantic_ai.direct import model_request

from mst.errors import GradingFault
from mst.model.transcript import Usage
from mst.providers.attempts import ModelFault
from mst.providers.endpoints import Endpoint, missing_package
from mst.providers.whole import WholeAnswers

# An odd count of tokens is not known, and no news to whoever waits for a verdict.
warnings.simplefilter("ignore", UsageExtractionFailedWarning)

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
_TOLD = tuple(cls for cls, _ in KINDS)


class Connection:
    """One model with its connection. Tries once: retries are counted by the caller."""

    def __init__(self, endpoint: Endpoint, key: str) -> None:
        self._client, self._model = CLIENTS[endpoint.dialect](*_modules(endpoint), endpoint, key)

    async def send(
        self, messages: Sequence[Any], parameters: Any, settings: Mapping[str, Any], *, timeout_s: float
    ) -> Any:
        """One request, once; the answer as the library read it.

        Raises:
            ModelFault: no answer.
        """
        try:
            async with asyncio.timeout(timeout_s):
                return await model_request(
                    self._model,
                    list(messages),
                    model_settings={**settings, "timeout": timeout_s},  # type: ignore[arg-type]  # its typed dict
                    model_request_parameters=parameters,
                )
        except TimeoutError as error:
            raise ModelFault(f"did not end within {timeout_s:g} s", "timeout") from error
        except Exception as error:
            raise _fault(error, timeout_s) from error

    async def close(self) -> None:
        """Close the connection."""
        await self._client.close()


def usage_of(answer: Any) -> Usage | None:
    """Tokens of one answer; None when the provider did not say, which the library shows as zeros."""
    found = answer.usage
    if getattr(found, "unmeasured_requests", 0) or not (found.input_tokens or found.output_tokens):
        return None
    return Usage.told(
        input_tokens=found.input_tokens,
        output_tokens=found.output_tokens,
        reasoning_output_tokens=(found.details or {}).get("reasoning_tokens") or None,
        cache_read_input_tokens=found.cache_read_tokens or None,
        cache_creation_input_tokens=found.cache_write_tokens or None,
        turns=1,
    )


def _fault(error: Exception, timeout_s: float) -> ModelFault:
    """What went wrong, in our words: as it was found while reading, as the library sorts it, or no readable answer."""
    cause: BaseException | None = error
    while cause is not None:
        if isinstance(cause, ModelFault):
            return ModelFault(str(cause), cause.kind)
        cause = cause.__cause__ or cause.__context__
    if isinstance(error, known.UserError):
        return ModelFault(str(error), "request")
    if isinstance(error, _TOLD) or _status(error) is not None:
        return _told(error, timeout_s)
    # The library reads answers that are none with faults of its own, of any type.
    ours = isinstance(error, known.ModelAPIError | known.UnexpectedModelBehavior)
    said = " ".join(str(error).split())
    return ModelFault(f"the answer cannot be read: {said if ours else f'{type(error).__name__}: {said}'}", "answer")


def _status(error: Exception) -> int | None:
    return getattr(error, "status_code", None) if isinstance(error, known.ModelAPIError) else None


def _told(error: Exception, timeout_s: float) -> ModelFault:
    """A fault that the provider told by a status, or one of the connection."""
    status = _status(error)
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


def _whole(vendor: Any) -> Any:
    """A vendor's own HTTP client, with its limits and time limits, whose answers are read whole and bounded."""
    return type("Whole", (WholeAnswers, vendor.DefaultAsyncHttpxClient), {})()


def _openai(models: Any, providers: Any, vendor: Any, endpoint: Endpoint, key: str) -> tuple[Any, Any]:
    client = vendor.AsyncOpenAI(base_url=endpoint.address, api_key=key, max_retries=0, http_client=_whole(vendor))
    return client, models.OpenAIChatModel(endpoint.name, provider=providers.OpenAIProvider(openai_client=client))


def _anthropic(models: Any, providers: Any, vendor: Any, endpoint: Endpoint, key: str) -> tuple[Any, Any]:
    client = vendor.AsyncAnthropic(base_url=endpoint.address, api_key=key, max_retries=0, http_client=_whole(vendor))
    return client, models.AnthropicModel(endpoint.name, provider=providers.AnthropicProvider(anthropic_client=client))


class _GoogleClient:
    """Google's client leaves a connection that it was given to who gave it; this closes it."""

    def __init__(self, http: Any) -> None:
        self._http = http

    async def close(self) -> None:
        await self._http.aclose()


def _google(models: Any, providers: Any, _: Any, endpoint: Endpoint, key: str) -> tuple[Any, Any]:
    http = WholeAnswers(timeout=httpx2.Timeout(CONNECTION_S, connect=CONNECT_S))
    provider = providers.GoogleProvider(api_key=key, base_url=endpoint.address, http_client=http)
    return _GoogleClient(http), models.GoogleModel(endpoint.name, provider=provider)


CLIENTS: dict[str, Callable[[Any, Any, Any, Endpoint, str], tuple[Any, Any]]] = {
    "openai": _openai,
    "anthropic": _anthropic,
    "google": _google,
}
