"""A deterministic pairwise judge: of two trials that pass, the one that changed fewer lines."""

from __future__ import annotations

from typing import ClassVar

from mst.judges.contract import Choice, JudgeContext, Subject
from mst.judges.diffs import changes_of
from mst.judges.measured import by_passing
from mst.judges.options import NoOptions, parse_options
from mst.model.base import Model
from mst.model.case import GraderSpec
from mst.model.score import Side


class SmallerDiff:
    """Pass beats fail; two failures tie; otherwise fewer changed lines win, and as many tie.

    A trial whose pass is not known is compared by its lines. Skipped when a side has no diff.
    """

    Options: ClassVar[type[Model]] = NoOptions
    deterministic: ClassVar[bool] = True

    def __init__(self, spec: GraderSpec) -> None:
        parse_options(spec, NoOptions)

    async def preflight(self, context: JudgeContext) -> None:
        """Nothing can be missing."""

    async def compare(
        self,
        baseline: Subject,
        candidate: Subject,
        context: JudgeContext,
        *,
        candidate_first: bool,
    ) -> Choice:
        """Compare the diffs that are in the records."""
        if (decided := by_passing(baseline, candidate)) is not None:
            return decided
        if baseline.record.diff is None or candidate.record.diff is None:
            return Choice(skipped=True, reasoning="a side has no diff: it had no workspace")
        lines = {"baseline": changed_lines(baseline.record.diff), "candidate": changed_lines(candidate.record.diff)}
        reasoning = f"changed lines: baseline {lines['baseline']}, candidate {lines['candidate']}"
        if lines["baseline"] == lines["candidate"]:
            return Choice(preference="tie", reasoning=reasoning)
        smaller: Side = "baseline" if lines["baseline"] < lines["candidate"] else "candidate"
        return Choice(preference=smaller, reasoning=reasoning)


def changed_lines(diff: str) -> int:
    """Lines added and removed by a unified diff, counted inside its hunks; a binary file counts as one."""
    return sum(change.added + change.removed + change.binary for change in changes_of(diff))
