"""Output of promptfoo, version 3: the JSON file, and the file of JSON lines with the same rows."""

from __future__ import annotations

import json
from collections.abc import Generator, Iterator
from pathlib import Path
from typing import Any

from mst.clients.imports.jsonlines import lines_of
from mst.clients.imports.jsonparts import JsonParts, parse
from mst.clients.imports.records import ImportFault, Place, Recorded, mapping, number, plain, whole
from mst.clients.imports.rows import case_id_at
from mst.model.base import digest
from mst.model.sound import sound
from mst.model.transcript import Usage

VERSION = 3
BROKE = 2
"""`failureReason` of a row that the provider did not answer; 1 is an assertion that failed."""
SHOWN_ERROR = 500


class Promptfoo:
    """`results.results` of the JSON file, or lines of rows. One row is read at a time.

    A case is known by `metadata.caseId` or `metadata.id` of its test, then by the test's `description`, then by its
    variables: promptfoo itself only counts tests. Repeats of a test are trials, in the file's order.
    """

    format = "promptfoo"

    def __init__(self, path: Path, name: str, *, lines: bool, case_id: str | None) -> None:
        self._path = path
        self._name = name
        self._lines = lines
        self._case_id = case_id

    def places(self) -> Iterator[Place]:
        """See `ResultFile.places`."""
        with self._path.open("rb") as stream:
            rows = lines_of(stream, self._name) if self._lines else self._rows(JsonParts(stream, self._name))
            for row, at, length in rows:
                yield self._place(row, at, length)

    def read(self, place: Place) -> Recorded:
        """See `ResultFile.read`."""
        with self._path.open("rb") as stream:
            stream.seek(int(place.at))
            row = parse(stream.read(place.length), f"{self._name}: case {place.case_id}")
        return _recorded(row)

    def _rows(self, parts: JsonParts) -> Iterator[tuple[Any, int, int]]:
        has_rows = False
        if parts.opens("{"):
            for key in parts.members():
                if key == "results" and parts.opens("{"):
                    has_rows = yield from self._results(parts)
                else:
                    parts.value()
        if not has_rows:
            raise ImportFault(f"{self._name}: no output of promptfoo: it has no results.results")

    def _results(self, parts: JsonParts) -> Generator[tuple[Any, int, int], None, bool]:
        version, has_rows = None, False
        for key in parts.members():
            if key == "results" and parts.opens("["):
                if version != VERSION:
                    why = f"version {version!r} of promptfoo's output is not known here ({VERSION} is)"
                    raise ImportFault(f"{self._name}: {why}; write it again with a current promptfoo, or upgrade mst")
                has_rows = True
                yield from parts.items()
                continue
            value, _at, _length = parts.value()
            version = value if key == "version" else version
        return has_rows

    def _place(self, row: Any, at: int, length: int) -> Place:
        provider = row.get("provider") if isinstance(row, dict) else None
        if not isinstance(provider, dict):
            raise ImportFault(f"{self._name}: no row of promptfoo (at byte {at}): it has no 'provider'")
        prompt = mapping(row.get("prompt"))
        model = provider.get("label") or provider.get("id")
        return Place(self._case_of(row, at), str(model), str(prompt.get("label") or ""), None, at, length)

    def _case_of(self, row: dict[str, Any], at: int) -> str:
        if self._case_id is not None:
            return case_id_at(row, self._case_id, f"{self._name}: the row at byte {at}")
        test = mapping(row.get("testCase"))
        metadata = mapping(test.get("metadata"))
        given = metadata.get("caseId") or metadata.get("id") or test.get("description")
        if isinstance(given, str | int) and not isinstance(given, bool):
            return str(given)
        return f"vars-{digest(plain(row.get('vars') or {}))[:12]}"


def _recorded(row: dict[str, Any]) -> Recorded:
    response = mapping(row.get("response"))
    test = mapping(row.get("testCase"))
    prompt = mapping(row.get("prompt"))
    output = response.get("output")
    broke = row.get("failureReason") == BROKE
    # A failed assertion stands under `error` too, and is no business of ours.
    said = (
        str(row.get("error") or "the provider gave no answer").strip().partition("\n")[0][:SHOWN_ERROR]
        if broke
        else None
    )
    raw = prompt.get("raw")
    grading = row.get("gradingResult")
    return Recorded(
        input=sound(raw) if isinstance(raw, str) else None,
        metadata=plain(mapping(test.get("metadata"))),
        final_text=None if output is None else sound(output) if isinstance(output, str) else _as_text(output),
        usage=_usage(row, response),
        error=None if said is None else sound(said),
        error_kind="environment" if broke else None,
        duration_ms=number(row.get("latencyMs")),
        scores={"promptfoo": {"pass": row.get("success"), "score": plain(row.get("score"))}} if grading else {},
        source_id=sound(str(row["id"])) if row.get("id") else None,
    )


def _as_text(output: Any) -> str:
    return json.dumps(plain(output), ensure_ascii=False)


def _usage(row: dict[str, Any], response: dict[str, Any]) -> Usage | None:
    """Zeros are what promptfoo writes for providers that do not say what they used."""
    used = mapping(response.get("tokenUsage"))
    tokens = {name: whole(used.get(field)) or None for name, field in (("in", "prompt"), ("out", "completion"))}
    cost = number(response.get("cost") if response.get("cost") is not None else row.get("cost")) or None
    if tokens["in"] is None and tokens["out"] is None and cost is None:
        return None
    return Usage.told(input_tokens=tokens["in"], output_tokens=tokens["out"], total_cost_usd=cost)
