"""What a comparison starts from: whole-number counts per case and side. Nothing else of a trial is kept in memory."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import TypeVar

from mst.errors import InvariantError

Number = TypeVar("Number", int, float)


@dataclass(frozen=True, slots=True)
class TrialCounts:
    """The trials of one variant on one case.

    Attributes:
        passed: scored trials that passed.
        scored: trials with a verdict, passed or not.
        planned: trials that the run asked for; 0 when this side does not have the case at all.
        errored: trials without a verdict because a grader or the infrastructure failed.
    """

    passed: int
    scored: int
    planned: int
    errored: int = 0

    def __post_init__(self) -> None:
        if not (0 <= self.passed <= self.scored and self.errored >= 0 and self.scored + self.errored <= self.planned):
            raise InvariantError(f"trial counts that cannot be: {self}")

    @property
    def missing(self) -> int:
        """Planned trials with neither a verdict nor an error."""
        return self.planned - self.scored - self.errored


@dataclass(frozen=True, slots=True)
class CaseData:
    """One case on both sides.

    Attributes:
        family: `metadata.cluster`; cases of one family are one unit. None: the case is a unit of its own.
        held_out: tagged `held-out`; left out of the decision, reported apart.
        regression: tagged `regression`; its fall is tested by itself.
    """

    case_id: str
    baseline: TrialCounts
    candidate: TrialCounts
    family: str | None = None
    held_out: bool = False
    regression: bool = False


@dataclass(frozen=True, slots=True)
class CandidateData:
    """One variant other than the baseline, with every case that either side has; no case ID twice.

    Attributes:
        treatment_unused: what the variant was expected to use and never did (`expect_used`), in words for the reader;
            None when the treatment took effect or nothing was expected.
    """

    variant: str
    cases: Sequence[CaseData]
    treatment_unused: str | None = None


@dataclass(frozen=True, slots=True)
class SideTotals:
    """Trial counts of one side, summed over cases."""

    passed: int
    scored: int
    planned: int
    errored: int

    @property
    def missing(self) -> int:
        """Planned trials with neither a verdict nor an error."""
        return self.planned - self.scored - self.errored

    @property
    def unscored_share(self) -> float:
        """Share of the planned trials that have no verdict; 0 when none was planned."""
        return (self.planned - self.scored) / self.planned if self.planned else 0.0


def totals(sides: Sequence[TrialCounts]) -> SideTotals:
    """Sum the counts of one side."""
    return SideTotals(
        passed=sum(side.passed for side in sides),
        scored=sum(side.scored for side in sides),
        planned=sum(side.planned for side in sides),
        errored=sum(side.errored for side in sides),
    )


def unit_sums(values: Sequence[Number], families: Sequence[Hashable | None] | None) -> list[Number]:
    """Add up the values of each family, in first-seen order; without a family (None) a value is a unit of its own."""
    if families is None:
        return list(values)
    sums: dict[Hashable, Number] = {}
    for index, (value, family) in enumerate(zip(values, families, strict=True)):
        unit: Hashable = (index,) if family is None else (family, "family")
        sums[unit] = sums[unit] + value if unit in sums else value
    return list(sums.values())
