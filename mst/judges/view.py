"""What judges are shown of a case and a trial, and dotted paths into it. Nothing in it names a variant. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from mst.errors import GraderError
from mst.judges.contract import Subject
from mst.model.case import Case
from mst.model.transcript import Transcript


def case_view(case: Case) -> dict[str, Any]:
    """A case as judges see it: `id`, `input`, `expected`, `tags`, `metadata`."""
    return {
        "id": case.id,
        "input": case.input,
        "expected": case.expected,
        "tags": case.tags,
        "metadata": case.metadata,
    }


def trial_view(subject: Subject, *, max_tool_output: int | None = None) -> dict[str, Any]:
    """A trial as judges see it: `response`, `transcript`, `evidence`, `diff`, `error`, `usage`.

    Args:
        subject: the trial.
        max_tool_output: characters that are kept of each event's output that is a text.
    """
    record = subject.record
    transcript = record.transcript or Transcript()
    shown = transcript.to_dict()
    if max_tool_output is not None:
        shown["events"] = [_shortened(event, max_tool_output) for event in shown["events"]]
    return {
        "response": subject.text,
        "transcript": shown,
        "evidence": record.transcript_evidence or transcript.evidence,
        "diff": record.diff,
        "error": record.error or transcript.error,
        "usage": shown.get("usage"),
    }


def unmet(requires: Iterable[str], subject: Subject) -> list[str]:
    """The paths of `requires` that are missing or empty on a trial; a judge is then skipped.

    A path starts with `case.` or `trial.` and goes on through mappings by key and lists by number. `case` has the
    keys of `case_view`, `trial` those of `trial_view` and `artifacts`, a list of paths.

    Raises:
        GraderError: a path starts with neither.
    """
    paths = list(requires)
    if not paths:
        return []
    document = {
        "case": case_view(subject.case),
        "trial": {**trial_view(subject), "artifacts": [file.path for file in subject.artifact_files]},
    }
    return [path for path in paths if is_empty(look_up(document, path))]


def not_asked(missing: Iterable[str]) -> str:
    """Why a judge was skipped without being asked."""
    return f"not asked: missing or empty: {', '.join(missing)}"


def look_up(document: dict[str, Any], path: str) -> Any:
    """What lies at a dotted path, or None. See `unmet`."""
    head, *rest = path.split(".")
    if head not in document or not rest:
        raise GraderError(f"requires: {path!r} must start with {' or '.join(f'{root}.' for root in document)}")
    value = document[head]
    for part in rest:
        if isinstance(value, dict):
            value = value.get(part)
        elif isinstance(value, list) and part.isdigit():
            value = value[int(part)] if int(part) < len(value) else None
        else:
            return None
    return value


def is_empty(value: Any) -> bool:
    """Missing, or an empty text, list or mapping. 0 and false are values."""
    return value is None or (isinstance(value, str | list | dict) and not value)


def _shortened(event: dict[str, Any], limit: int) -> dict[str, Any]:
    output = event.get("output")
    if not isinstance(output, str) or len(output) <= limit:
        return event
    return {**event, "output": f"{output[:limit]} [{len(output) - limit} more characters]"}
