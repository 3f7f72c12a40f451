"""The gradings of one run beside each other, as `mst show --grade-sets` prints them."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from mst.model.keys import RunId
from mst.model.printed.base import Printed


class Judged(Printed):
    """Verdicts of one grader, counted."""

    passed: int
    failed: int
    none: int


class SetVariant(Printed):
    """Trials of a variant in a grade set."""

    trials: int
    scored: int
    passed: int


class SetGrader(Printed):
    """A grader of a grade set."""

    name: str
    level: str
    type: str
    identity: str
    model: str | None
    prompt_hash: str | None
    version: str | None


class GradeSet(Printed):
    """One grading of the trials."""

    run_id: RunId
    created_at: str
    phase: str
    partial: bool
    reused_from: str | None
    variants: dict[str, SetVariant]
    graders: list[SetGrader]
    verdicts: dict[str, Judged]


class Flip(Printed):
    """A trial that came out differently."""

    variant: str
    case: str
    trial: int
    before: bool | None
    after: bool | None


class GraderChange(Printed):
    """One grader in two grade sets; numbers where both have it."""

    state: Literal["gone", "new", "same", "changed"]
    both: int | None = None
    differ: int | None = None
    kappa: float | None = None


class GradeSetChange(Printed):
    """A grade set held against the first."""

    from_: RunId = Field(alias="from")
    to: RunId
    trials: int
    up: int
    down: int
    gained: int
    lost: int
    flip_count: int
    flips: list[Flip]
    """The first 20."""
    graders: dict[str, GraderChange]


class GradeSetsDocument(Printed):
    """`mst show --grade-sets`."""

    sets: list[GradeSet]
    changes: list[GradeSetChange]
