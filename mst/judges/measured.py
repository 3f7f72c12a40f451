"""Deterministic pairwise judges by what a trial took: of two trials that pass, the cheaper or the faster one."""

from __future__ import annotations

from typing import ClassVar

from pydantic import Field

from mst.judges.contract import Choice, JudgeContext, Subject
from mst.judges.options import Options, parse_options
from mst.model.base import Model
from mst.model.case import GraderSpec
from mst.model.score import Side


class MarginOptions(Options):
    """Options of `cheaper` and `faster`."""

    main: ClassVar[str] = "margin"

    margin: float = Field(default=0.05, ge=0, lt=1)
    """Share of the larger value by which two trials must differ; less is a tie."""


class _Measured:
    """Pass beats fail; two failures tie; otherwise the smaller value wins, beyond the margin."""

    Options: ClassVar[type[Model]] = MarginOptions
    deterministic: ClassVar[bool] = True
    what: ClassVar[str]
    unit: ClassVar[str]

    def __init__(self, spec: GraderSpec) -> None:
        self._margin = parse_options(spec, MarginOptions).margin

    async def preflight(self, context: JudgeContext) -> None:
        """Nothing can be missing."""

    @classmethod
    def value(cls, subject: Subject) -> float | None:
        """What is compared; None when it is not known."""
        raise NotImplementedError

    async def compare(
        self,
        baseline: Subject,
        candidate: Subject,
        context: JudgeContext,
        *,
        candidate_first: bool,
    ) -> Choice:
        """Compare what is in the records. Skipped when a side's value is not known: unknown is not zero."""
        if (decided := by_passing(baseline, candidate)) is not None:
            return decided
        ours, theirs = self.value(candidate), self.value(baseline)
        if ours is None or theirs is None:
            return Choice(skipped=True, reasoning=f"a side's {self.what} is not known")
        reasoning = f"{self.what}: baseline {theirs:g} {self.unit}, candidate {ours:g} {self.unit}"
        if abs(ours - theirs) <= self._margin * max(ours, theirs):
            return Choice(preference="tie", reasoning=reasoning)
        smaller: Side = "candidate" if ours < theirs else "baseline"
        return Choice(preference=smaller, reasoning=reasoning)


class Cheaper(_Measured):
    """Compares `usage`: the cost that the program said, or else the one estimated by the config's prices."""

    what, unit = "cost", "USD"

    @classmethod
    def value(cls, subject: Subject) -> float | None:
        """Cost in USD."""
        transcript = subject.record.transcript
        usage = transcript.usage if transcript is not None else None
        return None if usage is None else usage.cost_usd


class Faster(_Measured):
    """Compares how long the trials took."""

    what, unit = "duration", "ms"

    @classmethod
    def value(cls, subject: Subject) -> float | None:
        """Duration in milliseconds."""
        return subject.record.duration_ms


def by_passing(baseline: Subject, candidate: Subject) -> Choice | None:
    """What passing alone decides: pass beats fail, two failures tie; None when both pass, or neither is known.

    Where it is known of one side alone, nothing is decided: less of a failure is no better than more of a success.
    """
    if (baseline.passed is None) != (candidate.passed is None):
        unknown = "baseline" if baseline.passed is None else "candidate"
        return Choice(skipped=True, reasoning=f"it is not known whether the {unknown} passes")
    if baseline.passed is False and candidate.passed is False:
        return Choice(preference="tie", reasoning="neither passes")
    if baseline.passed is not None and candidate.passed is not None and baseline.passed != candidate.passed:
        winner: Side = "candidate" if candidate.passed else "baseline"
        return Choice(preference=winner, reasoning=f"only the {winner} passes")
    return None
