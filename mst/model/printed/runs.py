"""Runs in a list, as `mst ls` prints them."""

from __future__ import annotations

from mst.model.keys import RunId
from mst.model.printed.base import Printed
from mst.model.run import Phases


class ListedVariant(Printed):
    """A variant of a run in a list."""

    name: str
    pass_rate: float | None
    cases_passed: int
    cases: int
    scored: int
    planned: int


class ListedRunRecord(Printed):
    """A run in a list."""

    run_id: RunId
    short_id: str
    eval: str
    created_at: str
    graded_from: RunId | None
    state: str
    phases: Phases
    narrowed: bool
    latest: bool
    baseline: str | None
    variants: list[ListedVariant]
    place: str


class RunsDocument(Printed):
    """`mst ls`."""

    runs: list[ListedRunRecord]
    more: int
    """Older ones that are not shown."""
    wrong: list[str]
    """Why some cannot be read."""
