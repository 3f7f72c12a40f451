"""Keys that are part of the config's language and that nothing acts on yet: said aloud, never passed over."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from mst.config.listing import Origin
from mst.config.source import Keys

UNENFORCED: tuple[Keys, ...] = (
    ("metrics",),
    ("tools",),
)
INSTEAD: dict[str, str] = {
    "metrics": "; numbers of your own are those that a case's checks return as `metrics`",
}
"""What does the same today."""
DESCRIBED_BY = frozenset({"llm"})
"""Clients that show a model the descriptions under `tools`."""


def unenforced(written: dict[str, Any], origins: dict[str, Origin], own: Origin) -> list[str]:
    """A warning for each key of the config and its variants that has no effect yet."""
    found: list[str] = []
    setups: list[tuple[Keys, dict[str, Any]]] = [((), written)]
    setups += [(("variants", index), variant) for index, variant in enumerate(written.get("variants", []))]
    for prefix, setup in setups:
        client = setup.get("client", written.get("client"))
        for keys in _given(setup):
            if keys == ("tools",) and client in DESCRIBED_BY:
                continue
            origin = own if prefix else origins[str(keys[0])]
            name = ".".join(map(str, keys))
            place, instead = origin.source.place((*prefix, *keys)), INSTEAD.get(name, "")
            found.append(f"{place}: {name!r} is recorded, but nothing acts on it yet{instead}")
    return found


def _given(setup: dict[str, Any]) -> Iterator[Keys]:
    for keys in UNENFORCED:
        value: Any = setup
        for key in keys:
            value = value.get(key) if isinstance(value, dict) else None
        if value:
            yield keys


def refuse(written: dict[str, Any], origins: dict[str, Origin]) -> None:
    """Note a fault for what would do harm if it were passed over: answers that must not be stored."""
    if written.get("redact_stored_responses"):
        origins["redact_stored_responses"].fault(
            ("redact_stored_responses",), "is not available yet: answers would be stored; leave it out, or false"
        )
