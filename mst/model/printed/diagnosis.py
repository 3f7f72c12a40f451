"""Why trials failed, as `mst diagnose` prints it."""

from __future__ import annotations

from typing import ClassVar, Literal

from mst.model.base import Document
from mst.model.keys import RunId
from mst.model.printed.base import Printed
from mst.model.trial import RUN_FORMAT


class ExampleRecord(Printed):
    """Where a cause was first seen, with what the grader or the error said."""

    variant: str
    case: str
    trial: int
    text: str


class NextStep(Printed):
    """What to do about a cause."""

    say: str
    command: str | None


class CauseRecord(Printed):
    """Trials, or comparisons, that failed or have no score for one reason."""

    what: str
    title: str
    grader: str | None
    kind: str | None
    stage: str | None
    count: int
    by_variant: dict[str, int]
    cases: list[str]
    example: ExampleRecord
    next: list[NextStep]


class DiagnosisDocument(Printed, Document):
    """`mst diagnose`."""

    FORMAT: ClassVar[str] = RUN_FORMAT
    KIND: ClassVar[str] = "diagnosis"
    format: Literal["mst.run/v1"] = "mst.run/v1"
    kind: Literal["diagnosis"] = "diagnosis"

    run_id: RunId
    eval_name: str
    trials: int
    outcomes: dict[str, int]
    causes: list[CauseRecord]
