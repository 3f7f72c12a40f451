"""What is taken over of a trial that somebody else collected."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Protocol

from mst.errors import ConfigError, ErrorKind
from mst.model.sound import sound
from mst.model.transcript import MOST, Event, Usage
from mst.model.trial import LimitHit

MAX_RECORD_BYTES = 100 * 1024 * 1024
"""Of one trial in a file. Larger ones are refused: reading one takes several times as much memory."""
MAX_RECORDS = 1_000_000


class ImportFault(ConfigError):
    """A file of results cannot be read; one line, with the file and what to do."""


@dataclass(frozen=True, slots=True)
class Place:
    """Where a trial stands in a file.

    Attributes:
        case_id: as the file has it, or as made from what it has.
        model: of the program that answered.
        prompt: label of the prompt, where the file tells several apart.
        trial: from 0; None when the file only has an order.
        at: byte offset, or name of a member of an archive.
        length: in bytes; 0 for members of archives.
    """

    case_id: str
    model: str
    prompt: str | None
    trial: int | None
    at: int | str
    length: int = 0

    def __post_init__(self) -> None:
        for name in ("case_id", "model", "prompt"):
            value = getattr(self, name)
            if value is not None and sound(value) != value:
                object.__setattr__(self, name, sound(value))


@dataclass(frozen=True, kw_only=True)
class Recorded:
    """One trial as the file tells it.

    Attributes:
        input: what was asked, as a text or a mapping; None when the file does not say.
        expected: the right answer, as far as the file says.
        error: why there is nothing to grade, or what the program reported; `error_kind` says whose fault it was.
        scores: what graded it there, by name: kept to be compared with, and not used.
        source_id: the file's own name of the trial.
    """

    input: str | dict[str, Any] | None = None
    expected: str | None = None
    metadata: dict[str, Any] = field(default_factory=dict)
    events: list[Event] = field(default_factory=list)
    final_text: str | None = None
    usage: Usage | None = None
    error: str | None = None
    error_kind: ErrorKind | None = None
    limit_hit: LimitHit | None = None
    duration_ms: float | None = None
    scores: dict[str, Any] = field(default_factory=dict)
    source_id: str | None = None


class ResultFile(Protocol):
    """A file of results. Reads what is asked for, and never the whole file into memory."""

    format: str

    def places(self) -> Iterator[Place]:
        """All trials, in the file's order; each is read once, one at a time.

        Raises:
            ImportFault: damaged, cut off, or of a version that is not known.
        """
        ...

    def read(self, place: Place) -> Recorded:
        """One trial.

        Raises:
            ImportFault: the file changed, or this trial cannot be read.
        """
        ...


def text_of(content: Any) -> str:
    """The text of a message's content: a text, or a list of parts of which the texts count."""
    if isinstance(content, str):
        return sound(content)
    if isinstance(content, list):
        return "\n".join(
            part["text"] for part in content if isinstance(part, dict) and isinstance(part.get("text"), str)
        )
    return ""


def listed(value: Any) -> list[Any]:
    """A list; an empty one for anything else."""
    return value if isinstance(value, list) else []


def mapping(value: Any) -> dict[str, Any]:
    """A mapping; an empty one for anything else."""
    return value if isinstance(value, dict) else {}


def whole(value: Any) -> int | None:
    """A count; None for anything else."""
    return value if isinstance(value, int) and not isinstance(value, bool) and value >= 0 else None


def number(value: Any) -> float | None:
    """A number that is not negative and not beyond all bounds; None for anything else."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= MOST:
        return None
    return float(value)


def plain(value: Any) -> Any:
    """A value that JSON can hold: what is not finite becomes a text."""
    if isinstance(value, dict):
        return {sound(str(key)): plain(item) for key, item in value.items()}
    if isinstance(value, list):
        return [plain(item) for item in value]
    if isinstance(value, float) and not -float("inf") < value < float("inf"):
        return str(value)
    return sound(value) if isinstance(value, str) else value
