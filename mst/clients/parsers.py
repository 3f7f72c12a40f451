"""Turning a program's output into a transcript."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from pydantic import ValidationError

from mst.model.transcript import Event, Transcript, Usage

Parser = Callable[[bytes], tuple[Transcript, int]]
"""Output to a transcript, and how many lines could not be used."""


def parse_text(output: bytes) -> tuple[Transcript, int]:
    """The output is the final answer, without the line ends at its end. Undecodable bytes become U+FFFD."""
    return Transcript(final_text=output.decode(errors="replace").rstrip("\r\n")), 0


def parse_jsonl(output: bytes) -> tuple[Transcript, int]:
    """One JSON object a line: an event (it has `kind`), or any of `finalText`, `usage`, `error`; snake_case works too.

    Without a `finalText` the last message's text is the final answer. Lines that are neither are counted and left out.
    """
    events: list[Event] = []
    closing: dict[str, Any] = {}
    unused = 0
    for line in output.split(b"\n"):
        if not line.strip():
            continue
        found = _parse_line(line)
        if isinstance(found, Event):
            events.append(found)
        elif found:
            closing.update(found)
        else:
            unused += 1
    if "final_text" not in closing:
        spoken = [event.output for event in events if event.kind == "message" and isinstance(event.output, str)]
        closing["final_text"] = spoken[-1] if spoken else None
    return Transcript(events=events, evidence="observed", **closing), unused


PARSERS: dict[str, Parser] = {"text": parse_text, "jsonl": parse_jsonl}


def closing_fields(value: dict[str, Any]) -> dict[str, Any]:
    """Final text, usage and error of a mapping, under our names. What has another type is left out."""
    found: dict[str, Any] = {}
    text = value.get("finalText", value.get("final_text"))
    if isinstance(text, str):
        found["final_text"] = text
    if isinstance(value.get("error"), str):
        found["error"] = value["error"]
    if isinstance(value.get("usage"), dict):
        try:
            found["usage"] = Usage.model_validate(value["usage"])
        except ValidationError:
            return found
    return found


def _parse_line(line: bytes) -> Event | dict[str, Any] | None:
    try:
        value = json.loads(line)
    except (ValueError, RecursionError):
        return None
    if not isinstance(value, dict):
        return None
    if "kind" not in value:
        return closing_fields(value)
    try:
        return Event.model_validate(value)
    except ValidationError:
        return None
