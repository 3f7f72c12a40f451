"""A deterministic pairwise judge: of two trials that pass, the one that changed fewer lines."""

from __future__ import annotations

import re
from typing import ClassVar

from mst.judges.contract import Choice, JudgeContext, Subject
from mst.judges.measured import by_passing
from mst.judges.options import NoOptions, parse_options
from mst.model.base import Model
from mst.model.case import GraderSpec
from mst.model.score import Side

_HUNK = re.compile(r"@@ -\d+(?:,(\d+))? \+\d+(?:,(\d+))? @@")


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
    changed = old = new = 0
    # Not splitlines: a form feed inside a line of a source file ends no line of the diff.
    for line in diff.split("\n"):
        if old > 0 or new > 0:
            changed += line[:1] in ("+", "-")
            old -= line[:1] not in ("+", "\\")
            new -= line[:1] not in ("-", "\\")
        elif found := _HUNK.match(line):
            old, new = (1 if count is None else int(count) for count in found.groups())
        elif line.startswith(("Binary files ", "GIT binary patch")):
            changed += 1
    return changed
