"""Options of judges that ask models: which ones, in which order, and how."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from pydantic import Field, field_validator, model_validator

from mst.judges.options import Options
from mst.providers.endpoints import Dialect, Endpoint, SecretName, Url


class ModelOptions(Options):
    """Options of every judge that asks a model."""

    model: str | None = None
    """`openai:NAME`, `anthropic:NAME` or `google:NAME`; a bare name with `provider` or `base_url`."""
    provider: Dialect | None = None
    """The dialect that is spoken: `openai` (and everything compatible), `anthropic`, `google`."""
    base_url: Url | None = None
    """Another address: a gateway, a local server."""
    api_key: SecretName | None = None
    """Name of the secret with the key."""
    rate_limit: str | None = None
    """Entry of `rate_limits.providers` that applies; the provider's name by default."""
    providers: list[Endpoint] = Field(default=[], max_length=5)
    """Where to ask next, in this order, when the first answers 402 or 5xx or not in time."""
    max_tokens: int = Field(default=2000, gt=0)
    """Bound of an answer."""
    temperature: float | None = Field(default=None, ge=0, le=2)
    """The provider's default unless given. A low one does not make a judge right, only steady."""
    output: Literal["tool", "native", "prompted"] = "tool"
    """How the structured answer is asked for: as the arguments of a tool, by the provider's own JSON mode, or in the
    prompt, for servers that have neither."""
    probe: bool = False
    """Ask the model once in the preflight, to find a refused key or an unknown model before any case. Costs a call."""
    max_tool_output: int = Field(default=2000, ge=0)
    """Characters that are shown of each event's output."""

    @field_validator("providers", mode="before")
    @classmethod
    def _bare_names(cls, value: Any) -> Any:
        return [{"model": one} if isinstance(one, str) else one for one in value] if isinstance(value, list) else value

    @model_validator(mode="after")
    def _model_is_usable(self) -> ModelOptions:
        if self.model is not None:
            first_endpoint(self.model_dump(by_alias=False))
        return self

    def endpoints(self) -> list[Endpoint]:
        """Where to ask, in order.

        Raises:
            ValueError: no model is named.
        """
        if self.model is None:
            raise ValueError("'model' is missing: which model judges, as in 'openai:NAME' or 'anthropic:NAME'")
        return [first_endpoint(self.model_dump(by_alias=False)), *self.providers]


def first_endpoint(options: Mapping[str, Any]) -> Endpoint:
    """The endpoint that a judge's own options name."""
    return Endpoint(**{name: options[name] for name in Endpoint.model_fields if options.get(name) is not None})


def secret_names(options: Mapping[str, Any]) -> list[str]:
    """Secrets that options of a judge ask for. A judge without a model inherits one, and its key with it."""
    if not options.get("model"):
        return []
    others = [Endpoint.model_validate(one) for one in options.get("providers") or []]
    endpoints = [first_endpoint(options), *others]
    return sorted({name for one in endpoints if (name := one.key_name) is not None})
