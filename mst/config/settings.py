"""Process settings: what a machine is told by its environment, since it must not stand in arguments."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from urllib.parse import urlsplit, urlunsplit

from mst.errors import UsageError

PREFIX = "MST_"


@dataclass(frozen=True, repr=False)
class Settings:
    """Settings of this process. Its repr holds no password.

    Attributes:
        broker_url: of the Redis broker, with its password (`MST_BROKER_URL`).
        store: URI or folder of the result store (`MST_STORE`).
        signing_key_file: the coordinator's private key (`MST_SIGNING_KEY_FILE`).
        fleet_key_file: the workers' private key (`MST_FLEET_KEY_FILE`).
        trusted_signers_file: public keys whose envelopes workers accept (`MST_TRUSTED_SIGNERS_FILE`).
        image_digest: of the image that this process runs in (`MST_IMAGE_DIGEST`): nothing inside an image knows it.
    """

    broker_url: str | None = None
    store: str | None = None
    signing_key_file: Path | None = None
    fleet_key_file: Path | None = None
    trusted_signers_file: Path | None = None
    image_digest: str | None = None

    @classmethod
    def from_environment(cls, environment: Mapping[str, str] | None = None) -> Settings:
        """Settings of the given environment, by default this process's. Empty values count as not set.

        Raises:
            UsageError: a file that is named is not there.
        """
        environment = os.environ if environment is None else environment
        given = {name: environment.get(variable(name)) or None for name in cls.names()}
        for name, value in given.items():
            if name.endswith("_file") and value is not None and not Path(value).is_file():
                raise UsageError(f"{variable(name)}: no such file: {value}")
        paths = {name: Path(value) for name, value in given.items() if name.endswith("_file") and value is not None}
        return cls(broker_url=given["broker_url"], store=given["store"], image_digest=given["image_digest"], **paths)

    @classmethod
    def names(cls) -> list[str]:
        """Names of all settings."""
        return [entry.name for entry in fields(cls)]

    def __repr__(self) -> str:
        shown = [f"{name}={masked_url(value) if isinstance(value, str) else value}" for name, value in self._set()]
        return f"Settings({', '.join(shown)})"

    def _set(self) -> list[tuple[str, str | Path]]:
        return [(name, value) for name in self.names() if (value := getattr(self, name)) is not None]


def variable(name: str) -> str:
    """The environment variable of a setting."""
    return f"{PREFIX}{name.upper()}"


def masked_url(url: str) -> str:
    """A URL without what is secret in it: password, user and query. Anything that is no URL stays."""
    try:
        parts = urlsplit(url)
        host, port = parts.hostname, parts.port
    except ValueError:
        return "<not a URL>"
    if not parts.scheme or not parts.netloc:
        return url
    netloc = (host or "") + (f":{port}" if port else "")
    credentials = "***@" if "@" in parts.netloc else ""
    return urlunsplit((parts.scheme, credentials + netloc, parts.path, "***" if parts.query else "", ""))
