"""Logs of Inspect AI, versions 1 and 2: `.eval` archives, and JSON files."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from mst.clients.imports.archive import Archive
from mst.clients.imports.jsonparts import JsonParts, parse
from mst.clients.imports.records import ImportFault, Place, Recorded, listed, number, plain, text_of, whole
from mst.model.sound import sound
from mst.model.transcript import Event, Usage
from mst.model.trial import LimitHit

VERSIONS = (1, 2)
SAMPLE = re.compile(r"samples/(?P<id>.+)_epoch_(?P<epoch>[0-9]+)\.json", re.DOTALL)
LIMITS: dict[str, LimitHit] = {
    "time": "timeout",
    "working": "timeout",
    "token": "tokens",
    "context": "tokens",
    "message": "turns",
    "turn": "turns",
    "cost": "cost",
}
ATTACHMENT = "attachment://"
SHOWN_ERROR = 500


class InspectArchive:
    """An `.eval` file. Samples are members of their own, so only those that are asked for are unpacked."""

    format = "inspect"

    def __init__(self, path: Path, name: str) -> None:
        self._archive = Archive(path, name)
        self._name = name
        names = self._archive.names
        # A log that was not finished has no header yet; its start says the same.
        head = next((one for one in ("header.json", "_journal/start.json") if one in names), None)
        if head is None:
            raise ImportFault(f"{name}: no log of Inspect: it has no header.json")
        self._model = _model(parse(self._archive.read(head), f"{name}: {head}"), name)

    def places(self) -> Iterator[Place]:
        """See `ResultFile.places`. Names of members say all of it."""
        for member in self._archive.names:
            found = SAMPLE.fullmatch(member)
            if found is not None:
                yield Place(found["id"], self._model, None, int(found["epoch"]) - 1, member)

    def read(self, place: Place) -> Recorded:
        """See `ResultFile.read`."""
        where = f"{self._name}: {place.at}"
        return _recorded(parse(self._archive.read(str(place.at)), where), self._model, where)


class InspectJson:
    """A JSON log. Samples are read one at a time."""

    format = "inspect"

    def __init__(self, path: Path, name: str) -> None:
        self._path = path
        self._name = name
        self._model_name = ""

    def places(self) -> Iterator[Place]:
        """See `ResultFile.places`."""
        head: dict[str, Any] = {}
        with self._path.open("rb") as stream:
            parts = JsonParts(stream, self._name)
            if not parts.opens("{"):
                raise ImportFault(f"{self._name}: no log of Inspect")
            for key in parts.members():
                if key == "samples" and parts.opens("["):
                    yield from self._samples(parts, _model(head, self._name))
                    continue
                value, _at, _length = parts.value()
                if key in {"version", "eval"}:
                    head[key] = value
        _model(head, self._name)

    def read(self, place: Place) -> Recorded:
        """See `ResultFile.read`."""
        with self._path.open("rb") as stream:
            stream.seek(int(place.at))
            data = stream.read(place.length)
        where = f"{self._name}: sample {place.case_id}"
        return _recorded(parse(data, where), place.model, where)

    def _samples(self, parts: JsonParts, model: str) -> Iterator[Place]:
        for sample, at, length in parts.items():
            if not isinstance(sample, dict) or not isinstance(sample.get("id"), str | int):
                raise ImportFault(f"{self._name}: a sample without an id (at byte {at})")
            epoch = whole(sample.get("epoch")) or 1
            yield Place(str(sample["id"]), model, None, epoch - 1, at, length)


def _model(head: Any, name: str) -> str:
    """The model of a log, whose version is one that is known."""
    if not isinstance(head, dict) or not isinstance(head.get("eval"), dict):
        raise ImportFault(f"{name}: no log of Inspect: it does not say what was evaluated before its samples")
    version = head.get("version")
    if version not in VERSIONS:
        known = " and ".join(map(str, VERSIONS))
        raise ImportFault(f"{name}: version {version!r} of Inspect's logs is not known here ({known} are); upgrade mst")
    model = head["eval"].get("model")
    if not isinstance(model, str) or not model:
        raise ImportFault(f"{name}: the log names no model")
    return model


def _recorded(sample: Any, model: str, where: str) -> Recorded:
    if not isinstance(sample, dict):
        raise ImportFault(f"{where}: not a sample")
    sample = _with_attachments(sample)
    messages = [one for one in listed(sample.get("messages")) if isinstance(one, dict)]
    error, limit = sample.get("error"), sample.get("limit")
    kind = limit.get("type") if isinstance(limit, dict) else None
    said = sound(str(error.get("message") or "")) if isinstance(error, dict) else ""
    seconds = number(sample.get("working_time")) or number(sample.get("total_time"))
    why = sound(str(limit.get("reason") or f"ended at its limit of {kind}")) if isinstance(limit, dict) else None
    return Recorded(
        input=_asked(sample.get("input")),
        expected=_target(sample.get("target")),
        metadata=plain(sample["metadata"]) if isinstance(sample.get("metadata"), dict) else {},
        events=_events(messages),
        final_text=_answer(sample.get("output")),
        usage=_usage(sample.get("model_usage"), model, messages),
        error=said[:SHOWN_ERROR] or "no reason is given" if isinstance(error, dict) else why,
        error_kind="environment" if isinstance(error, dict) else None,
        limit_hit=LIMITS.get(str(kind)),
        duration_ms=None if seconds is None else seconds * 1000,
        scores=_scores(sample.get("scores")),
        source_id=sound(str(sample["uuid"])) if sample.get("uuid") else None,
    )


def _with_attachments(sample: dict[str, Any]) -> dict[str, Any]:
    """The sample with what Inspect moved out of its messages put back."""
    kept = sample.get("attachments")
    if not isinstance(kept, dict) or not kept:
        return sample

    def restored(value: Any) -> Any:
        if isinstance(value, str) and value.startswith(ATTACHMENT):
            return kept.get(value.removeprefix(ATTACHMENT), value)
        if isinstance(value, dict):
            return {key: restored(item) for key, item in value.items()}
        return [restored(item) for item in value] if isinstance(value, list) else value

    return {**sample, **{key: restored(sample.get(key)) for key in ("input", "messages", "output")}}


def _asked(given: Any) -> str | None:
    if isinstance(given, str):
        return sound(given)
    if not isinstance(given, list):
        return None
    messages = [one for one in given if isinstance(one, dict)]
    if len(messages) == 1:
        return text_of(messages[0].get("content"))
    return "\n\n".join(f"{sound(str(one.get('role')))}: {text_of(one.get('content'))}" for one in messages)


def _target(given: Any) -> str | None:
    if isinstance(given, list):
        return sound("\n".join(map(str, given))) or None
    return sound(str(given)) if given is not None and given != "" else None


def _events(messages: list[dict[str, Any]]) -> list[Event]:
    """What the model said and called, in order; a call has the answer of the tool message that belongs to it."""
    answers = {str(one.get("tool_call_id")): one for one in messages if one.get("role") == "tool"}
    events: list[Event] = []
    for message in messages:
        if message.get("role") != "assistant":
            continue
        text = text_of(message.get("content"))
        if text:
            events.append(Event(kind="message", name="assistant", output=text))
        events += [
            _call(call, answers.get(str(call.get("id"))))
            for call in listed(message.get("tool_calls"))
            if isinstance(call, dict)
        ]
    return events


def _call(call: dict[str, Any], answer: dict[str, Any] | None) -> Event:
    name, ident = sound(str(call.get("function"))), sound(str(call.get("id")))
    event = Event(kind="tool_call", name=name, arguments=plain(call.get("arguments")), id=ident)
    if answer is None:
        return event
    error = answer.get("error")
    text = text_of(answer.get("content"))
    if isinstance(error, dict):
        text = text or sound(str(error.get("message")))
    return event.model_copy(update={"output": text, "is_error": error is not None})


def _answer(output: Any) -> str | None:
    if not isinstance(output, dict):
        return None
    choices = output.get("choices")
    if isinstance(choices, list) and choices and isinstance(choices[0], dict):
        message = choices[0].get("message")
        return text_of(message.get("content")) if isinstance(message, dict) else None
    completion = output.get("completion")
    return sound(completion) if isinstance(completion, str) and completion else None


def _usage(used: Any, model: str, messages: list[dict[str, Any]]) -> Usage | None:
    """Of the model under test; what graders' models used is not its own."""
    if not isinstance(used, dict):
        return None
    found = used.get(model)
    if not isinstance(found, dict):
        return None
    return Usage.told(
        input_tokens=whole(found.get("input_tokens")),
        output_tokens=whole(found.get("output_tokens")),
        reasoning_output_tokens=whole(found.get("reasoning_tokens")),
        cache_read_input_tokens=whole(found.get("input_tokens_cache_read")),
        cache_creation_input_tokens=whole(found.get("input_tokens_cache_write")),
        total_cost_usd=number(found.get("total_cost")),
        turns=sum(one.get("role") == "assistant" for one in messages) or None,
    )


def _scores(scores: Any) -> dict[str, Any]:
    if not isinstance(scores, dict):
        return {}
    return {sound(str(name)): plain(one.get("value")) for name, one in scores.items() if isinstance(one, dict)}
