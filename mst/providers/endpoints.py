"""Where a model is: the dialect that is spoken, an address, a name and the name of a key."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import ConfigDict, Field, model_validator

from mst.errors import ConfigError
from mst.model.base import Model

Dialect = Literal["openai", "anthropic", "google"]
DIALECTS: tuple[Dialect, ...] = ("openai", "anthropic", "google")
ADDRESSES: dict[Dialect, str] = {
    "openai": "https://api.openai.com/v1",
    "anthropic": "https://api.anthropic.com",
    "google": "https://generativelanguage.googleapis.com",
}
KEYS: dict[Dialect, str] = {
    "openai": "OPENAI_API_KEY",
    "anthropic": "ANTHROPIC_API_KEY",
    "google": "GOOGLE_API_KEY",
}
"""Secret that holds a provider's key unless `api_key` names another."""

SecretName = Annotated[str, Field(pattern=r"^[A-Za-z_][A-Za-z0-9_]*$")]
Url = Annotated[str, Field(pattern=r"^https?://[^\s@]+$")]


class Endpoint(Model):
    """One way to reach a model."""

    model_config = ConfigDict(extra="forbid")

    model: Annotated[str, Field(min_length=1)]
    """`openai:NAME`, `anthropic:NAME`, `google:NAME`; or a bare name with `provider` or `base_url` beside it."""
    provider: Dialect | None = None
    """The dialect that is spoken; that of OpenAI when only `base_url` is given."""
    base_url: Url | None = None
    """Another address: a gateway, a local server. Keys do not belong into it."""
    api_key: SecretName | None = None
    """Name of the secret with the key. By default that of the provider; none when `base_url` is given."""
    rate_limit: str | None = None
    """Entry of `rate_limits.providers` that applies; the provider's name by default."""

    @model_validator(mode="before")
    @classmethod
    def _bare_name(cls, data: Any) -> Any:
        return {"model": data} if isinstance(data, str) else data

    @model_validator(mode="after")
    def _has_dialect(self) -> Endpoint:
        head = self.model.partition(":")[0]
        if self.provider is None and self.base_url is None and head not in DIALECTS:
            raise ValueError(
                f"model {self.model!r} names no provider; write openai:, anthropic: or google: before it, or give "
                "'provider' or 'base_url'"
            )
        return self

    @property
    def dialect(self) -> Dialect:
        """How it is spoken to."""
        head = self.model.partition(":")[0]
        named = [name for name in DIALECTS if name == head]
        return self.provider or (named[0] if named else "openai")

    @property
    def name(self) -> str:
        """The model's name as the provider knows it."""
        head, _, rest = self.model.partition(":")
        return rest if head == self.dialect and rest else self.model

    @property
    def address(self) -> str:
        """Where it is."""
        return self.base_url or ADDRESSES[self.dialect]

    @property
    def key_name(self) -> str | None:
        """The secret that holds its key; None when it needs none."""
        return self.api_key or (None if self.base_url else KEYS[self.dialect])

    @property
    def limit_name(self) -> str:
        """Which limits apply."""
        return self.rate_limit or self.dialect


def missing_package(error: ImportError) -> ConfigError:
    """What to do about a package that asking models needs."""
    return ConfigError(f"asking models needs the package {error.name or 'pydantic_ai'!r}: pip install 'mst[judges]'")
