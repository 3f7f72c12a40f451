"""JSON lines: one trial a line, in names of ours; snake_case works too."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, BinaryIO, get_args

from pydantic import ValidationError

from mst.clients.imports.jsonparts import parse
from mst.clients.imports.records import MAX_RECORD_BYTES, ImportFault, Place, Recorded, number, plain, whole
from mst.clients.imports.rows import case_id_at
from mst.clients.parsers import closing_fields
from mst.model.transcript import Event
from mst.model.trial import LimitHit

UNNAMED = "unnamed"
"""The model of lines that name none."""


class JsonLines:
    """A line needs a case's ID (`caseId`, `id`, or what `case_id` says) and some of `finalText`, `output`, `events`.

    It may have `model`, `prompt`, `trial`, `input`, `expected`, `usage`, `error`, `errorKind`, `limitHit`,
    `durationMs`, `metadata`, `scores`. Without `trial`, lines of one case and model are its trials in order.
    """

    format = "jsonl"

    def __init__(self, path: Path, name: str, *, case_id: str | None) -> None:
        self._path = path
        self._name = name
        self._case_id = case_id

    def places(self) -> Iterator[Place]:
        """See `ResultFile.places`."""
        with self._path.open("rb") as stream:
            for number_, (row, at, length) in enumerate(lines_of(stream, self._name), start=1):
                where = f"{self._name}:{number_}"
                if not isinstance(row, dict):
                    raise ImportFault(f"{where}: should be a JSON object")
                self._recorded(row, where)
                prompt = row.get("prompt")
                yield Place(
                    self._case_of(row, where),
                    str(row.get("model") or UNNAMED),
                    prompt if isinstance(prompt, str) else None,
                    whole(row.get("trial")),
                    at,
                    length,
                )

    def read(self, place: Place) -> Recorded:
        """See `ResultFile.read`."""
        with self._path.open("rb") as stream:
            stream.seek(int(place.at))
            where = f"{self._name}: case {place.case_id}"
            return self._recorded(plain(parse(stream.read(place.length), where)), where)

    def _case_of(self, row: dict[str, Any], where: str) -> str:
        if self._case_id is not None:
            return case_id_at(row, self._case_id, where)
        for key in ("caseId", "case_id", "id"):
            if key in row:
                return case_id_at(row, key, where)
        raise ImportFault(f"{where}: no case ID; give 'caseId', or say with option 'case_id' where it stands")

    def _recorded(self, row: dict[str, Any], where: str) -> Recorded:
        kind, limit = _either(row, "errorKind", "error_kind"), _either(row, "limitHit", "limit_hit")
        if kind not in {None, "agent", "environment"}:
            raise ImportFault(f"{where}: errorKind should be 'agent' or 'environment', not {kind!r}")
        if limit is not None and limit not in get_args(LimitHit):
            raise ImportFault(f"{where}: limitHit should be one of {', '.join(get_args(LimitHit))}, not {limit!r}")
        closing = closing_fields(row)
        output = row.get("output")
        text = closing.get("final_text", output if isinstance(output, str) else None)
        events = _events(row, where)
        error = closing.get("error")
        if kind is None and text is None and not events and limit is None:
            # Nothing to grade is nobody's wrong answer.
            kind, error = "environment", error or "the line has neither 'finalText' nor 'events'"
        given = row.get("input")
        expected = row.get("expected")
        return Recorded(
            input=given if isinstance(given, str | dict) else None,
            expected=expected if isinstance(expected, str) else None,
            metadata=plain(row["metadata"]) if isinstance(row.get("metadata"), dict) else {},
            events=events,
            final_text=text,
            usage=closing.get("usage"),
            error=error or (f"ended at its limit of {limit}" if limit else None),
            error_kind=kind,
            limit_hit=limit,
            duration_ms=number(_either(row, "durationMs", "duration_ms")),
            scores=plain(row["scores"]) if isinstance(row.get("scores"), dict) else {},
        )


def lines_of(stream: BinaryIO, name: str) -> Iterator[tuple[Any, int, int]]:
    """Values of lines with their byte offsets and lengths; empty lines are passed over.

    Raises:
        ImportFault: a line that is no JSON, is cut off, or is too long; names the line.
    """
    at = line_number = 0
    while line := stream.readline(MAX_RECORD_BYTES + 1):
        line_number += 1
        if len(line) > MAX_RECORD_BYTES:
            raise ImportFault(f"{name}:{line_number}: a line of more than {MAX_RECORD_BYTES // 1024**2} MB")
        if line.strip():
            yield plain(parse(line.removeprefix(b"\xef\xbb\xbf"), f"{name}:{line_number}")), at, len(line)
        at += len(line)


def _either(row: dict[str, Any], *names: str) -> Any:
    return next((row[name] for name in names if row.get(name) is not None), None)


def _events(row: dict[str, Any], where: str) -> list[Event]:
    given = row.get("events")
    if given is None:
        return []
    if not isinstance(given, list):
        raise ImportFault(f"{where}: events should be a list")
    try:
        return [Event.model_validate(event) for event in given]
    except ValidationError as error:
        fault = error.errors(include_url=False, include_input=False)[0]
        raise ImportFault(f"{where}: events: {'.'.join(map(str, fault['loc']))}: {fault['msg']}") from error
