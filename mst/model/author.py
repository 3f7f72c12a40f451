"""Who gave the verdicts of a grading that ran in shards: the lines of `authors.jsonl`."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, TypeAdapter

from mst.model.base import Model
from mst.model.keys import ComparisonKey, TrialKey


class GivenBy(Model):
    """The verdicts of some graders on one unit, and who gave them. A later line about the same verdict counts."""

    type: Literal["given"] = "given"
    trial: TrialKey | None = None
    comparison: ComparisonKey | None = None
    graders: list[str]
    """Without those whose verdict was there before and was only kept."""
    attempt: str | None = None
    machine: str | None = None


class SettledDispatches(Model):
    """Dispatches that were taken over before verdicts were dropped: nothing of them is taken over again."""

    type: Literal["settled"] = "settled"
    dispatches: list[str]


AuthorLine = Annotated[GivenBy | SettledDispatches, Field(discriminator="type")]
AUTHOR_LINE: TypeAdapter[GivenBy | SettledDispatches] = TypeAdapter(AuthorLine)
