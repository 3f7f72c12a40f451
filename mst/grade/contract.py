"""Where verdicts come from. Everything after a grading source does not know which one it was."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Literal, Protocol

from mst.judges.contract import Subject
from mst.model.case import Case, GraderSpec
from mst.model.keys import ComparisonKey, TrialKey
from mst.model.score import ComparisonGrading, TrialGrading

GraderRole = Literal["assertion", "checks", "judge", "pairwise"]


@dataclass(frozen=True, kw_only=True)
class Grader:
    """One grader as it applies to a case and variant: its spec under the name it has in results."""

    name: str
    role: GraderRole
    spec: GraderSpec

    @cached_property
    def identity(self) -> str:
        """Hash of the spec's identity. Kept, since every score carries it."""
        return self.spec.identity().hash


@dataclass(frozen=True, kw_only=True)
class Pair:
    """The trials of both sides of a comparison that may be compared, by trial number."""

    case: Case
    candidate: str
    baseline_trials: Sequence[Subject]
    candidate_trials: Sequence[Subject]


class GradingSource(Protocol):
    """Supplies verdicts: `live` calls graders, `recorded` reads what a shard worker recorded."""

    async def trial(self, key: TrialKey, subject: Subject, graders: Sequence[Grader]) -> TrialGrading:
        """The scores of one trial, one for each grader given, in their order.

        A grader that could not run has a score with `error`; this never raises for a grader's fault.
        """
        ...

    async def comparison(self, key: ComparisonKey, pair: Pair, judges: Sequence[Grader]) -> ComparisonGrading:
        """The preferences of one comparison, one for each judge given, in their order."""
        ...
