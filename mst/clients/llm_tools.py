"""Which tools a model is offered, under which names, and what a call of one means. Pure."""

from __future__ import annotations

import hashlib
import json
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from mst.errors import ClientError

NAME_CHARACTERS = 64
"""The longest name of a tool that all providers take."""
_UNFIT = re.compile(r"[^A-Za-z0-9_-]")


@dataclass(frozen=True, kw_only=True)
class ServerTool:
    """A tool as its server lists it."""

    server: str
    name: str
    description: str
    schema: dict[str, Any]

    def is_called(self, name: str) -> bool:
        """Whether a config means this one: by its name, or by `server.name` where several servers have it."""
        return name in {self.name, f"{self.server}.{self.name}"}


def offered(
    listed: Sequence[ServerTool], *, only: Sequence[str] | None, described: Mapping[str, Any]
) -> dict[str, ServerTool]:
    """The tools by the name that the model sees, in the servers' order.

    That is the tool's own name; `server__name` where two servers have it. Other characters than letters, digits, `_`
    and `-` become `_`, and names over 64 characters end in a hash.

    Args:
        listed: what the servers have.
        only: tools to offer, as names; all by default.
        described: descriptions in place of the servers', by name: a text, or `{description: text}`.

    Raises:
        ClientError: `harness`: a name that no server has.
    """
    for name in [*(only or []), *described]:
        if not any(tool.is_called(name) for tool in listed):
            known = ", ".join(sorted({tool.name for tool in listed})[:20]) or "none"
            raise ClientError(f"no server has a tool {name!r}; there are: {known}", "harness")
    chosen = [tool for tool in listed if only is None or any(tool.is_called(name) for name in only)]
    times = Counter(tool.name for tool in chosen)
    found: dict[str, ServerTool] = {}
    for tool in chosen:
        name = _fit(tool.name if times[tool.name] == 1 else f"{tool.server}__{tool.name}", found)
        found[name] = _described(tool, described)
    return found


def arguments_of(given: Any) -> dict[str, Any]:
    """A call's arguments as the model wrote them.

    Raises:
        ValueError: no JSON object; says what it is instead.
    """
    if given is None or given == "":
        return {}
    if isinstance(given, str):
        try:
            given = json.loads(given, parse_constant=_no_constant)
        except RecursionError as error:
            raise ValueError("arguments are nested too deep") from error
        except ValueError as error:
            raise ValueError(f"arguments are not valid JSON: {error}") from error
    if not isinstance(given, dict):
        raise ValueError(f"arguments should be a JSON object, not {json.dumps(given)[:100]}")  # noqa: TRY004 - as said
    return given


def shortened(text: str, most: int) -> str:
    """A tool's output as the model is shown it: the beginning, and how much was left out."""
    if len(text) <= most:
        return text
    return f"{text[:most]}\n[{len(text) - most} more characters were left out]"


def _no_constant(name: str) -> None:
    raise ValueError(f"{name} is no JSON")


def _fit(name: str, taken: Mapping[str, Any]) -> str:
    fit = _UNFIT.sub("_", name)
    if len(fit) > NAME_CHARACTERS or fit in taken:
        mark = hashlib.sha256(name.encode()).hexdigest()[:8]
        fit = f"{fit[: NAME_CHARACTERS - 9]}_{mark}"
    return fit


def _described(tool: ServerTool, described: Mapping[str, Any]) -> ServerTool:
    # `server.name` is more exact than the name alone.
    given = described.get(f"{tool.server}.{tool.name}", described.get(tool.name))
    text = given.get("description") if isinstance(given, Mapping) else given
    if text is None:
        return tool
    return ServerTool(server=tool.server, name=tool.name, description=str(text), schema=tool.schema)
