"""Reading what agents tell: JSON lines into events, tool calls with their answers. Pure."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from mst.model.transcript import Event


def json_lines(output: bytes) -> Iterator[dict[str, Any] | None]:
    """The mappings of an output, a line each; None for a line that is none. Empty lines are passed over."""
    for line in output.split(b"\n"):
        if not line.strip():
            continue
        try:
            value = json.loads(line)
        except (ValueError, RecursionError):
            yield None
            continue
        yield value if isinstance(value, dict) else None


def text_of(content: Any) -> str:
    """The text of a content that is one, or a list of parts of which some are texts."""
    if isinstance(content, str):
        return content
    parts = content if isinstance(content, list) else []
    return "\n".join(
        str(part["text"]) for part in parts if isinstance(part, dict) and isinstance(part.get("text"), str)
    )


def spoken(text: str, role: str = "assistant") -> Event:
    """A message."""
    return Event(kind="message", name=role, output=text)


def whole(value: Any) -> int | None:
    """A count, or None for anything else: what is not known is not zero."""
    return value if isinstance(value, int) and not isinstance(value, bool) and value >= 0 else None


class Calls:
    """Events in order; a tool's answer is put to its call when it comes."""

    def __init__(self) -> None:
        self.events: list[Event] = []
        self._places: dict[str, int] = {}

    def add(self, event: Event) -> None:
        """The next event. One whose `id` is known replaces the earlier, at its place."""
        if event.id is not None and event.id in self._places:
            self.events[self._places[event.id]] = event
            return
        if event.id is not None:
            self._places[event.id] = len(self.events)
        self.events.append(event)

    def answer(self, call_id: str, output: Any, *, is_error: bool | None) -> bool:
        """What a call got back. False: nobody asked."""
        place = self._places.get(call_id)
        if place is None:
            return False
        self.events[place] = self.events[place].model_copy(update={"output": output, "is_error": is_error})
        return True
