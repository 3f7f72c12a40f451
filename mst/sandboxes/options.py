"""What a variant asks of its sandbox. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BeforeValidator, ConfigDict, Field, ValidationError, model_validator

from mst.errors import ConfigError
from mst.model.base import Model

Kind = Literal["none", "bwrap", "docker"]
Network = Literal["none", "allowlist", "open"]

_SIZE = re.compile(r"(\d+(?:\.\d+)?)\s*([kmgt]?)(?:i?b)?", re.IGNORECASE)
_LABEL = r"[A-Za-z0-9_](?:[A-Za-z0-9_-]*[A-Za-z0-9_])?"
_HOST = re.compile(rf"(?:\*\.)?(?:{_LABEL}\.)*{_LABEL}")
_POWERS = {"": 0, "k": 1, "m": 2, "g": 3, "t": 4}


def size_bytes(value: Any) -> Any:
    """`512m`, `2g`, `1.5 GiB` or a number of bytes; units are powers of 1024. Anything else is left to the schema."""
    if not isinstance(value, str):
        return value
    found = _SIZE.fullmatch(value.strip())
    if found is None:
        raise ValueError(f"{value!r} is not a size; write for instance 512m or 2g")
    return int(float(found[1]) * 1024 ** _POWERS[found[2].lower()])


Size = Annotated[int, BeforeValidator(size_bytes), Field(gt=0)]


def host_name(value: str) -> str:
    """A name as it is asked for, in small letters; `*.` may stand before it. Addresses, ports and paths are none."""
    if not _HOST.fullmatch(value) or len(value) > 253:
        raise ValueError(f"{value!r} is not a host name; write for instance api.example.org, or *.example.org")
    return value.lower()


HostName = Annotated[str, AfterValidator(host_name)]


class SandboxOptions(Model):
    """`sandbox` of a variant. Limits are over everything that a trial runs, together."""

    model_config = ConfigDict(extra="forbid", alias_generator=None)

    kind: Kind = "none"
    network: Network | None = None
    """`none` unless given, but for kind `none`, which cannot keep anybody from the network."""
    allow: list[HostName] = []
    """With `network: allowlist`: host names, `*.example.org` for all below one."""
    proxy: str = Field(default="mst-proxy", min_length=1)
    """Image of the proxy that keeps `allow`; `mst images build proxy` makes it."""
    memory: Size = 4 * 1024**3
    """Of all processes together; at the limit the kernel ends the largest."""
    cpus: float | None = Field(default=None, gt=0)
    pids: int = Field(default=1024, ge=8)
    """Most processes and threads at once; further ones cannot be started."""
    disk: Size = 10 * 1024**3
    """Of the workspace, the home and `/tmp`; looked at about once a second, the trial ends above it."""
    read: list[str] = []
    """Further folders of this machine that the program may read, at their own paths."""
    image: str | None = None
    """Of `docker`; a case's own image wins."""

    @model_validator(mode="after")
    def _fits(self) -> SandboxOptions:
        if self.kind == "none" and self.network in {"none", "allowlist"}:
            raise ValueError("kind 'none' cannot keep a program from the network; use bwrap or docker")
        if self.allow and self.network != "allowlist":
            raise ValueError("'allow' needs network: allowlist")
        if self.network == "allowlist" and not self.allow:
            raise ValueError("network: allowlist needs 'allow': the host names")
        if self.network == "allowlist" and self.kind != "docker":
            raise ValueError("network: allowlist needs kind: docker")
        relative = [path for path in self.read if not path.startswith("/")]
        if relative:
            raise ValueError(f"read: {relative[0]!r} is not an absolute path")
        return self

    @property
    def reach(self) -> Network:
        """What the network is, defaults applied."""
        return self.network or ("open" if self.kind == "none" else "none")


def sandbox_options(written: Mapping[str, Any], where: str) -> SandboxOptions:
    """A variant's `sandbox` under its schema.

    Raises:
        ConfigError: a line per fault, with its key.
    """
    try:
        return SandboxOptions.model_validate(dict(written))
    except ValidationError as error:
        found = error.errors(include_url=False, include_input=False)
        raise ConfigError(*(f"{where}: {_said(fault['loc'], fault['msg'])}" for fault in found)) from error


def _said(place: tuple[str | int, ...], message: str) -> str:
    return f"{'.'.join(['sandbox', *map(str, place)])}: {message.removeprefix('Value error, ')}"
