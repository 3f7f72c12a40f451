"""A pairwise judge that is a program: both sides as JSON on stdin under neutral names, a preference on stdout."""

from __future__ import annotations

from typing import Any, ClassVar

from mst.judges.command import JUDGE_FORMAT
from mst.judges.contract import Choice, JudgeContext, Subject
from mst.judges.folder import CallFolder, call_folder
from mst.judges.options import parse_options
from mst.judges.program import Program, ProgramOptions
from mst.judges.verdict import PairVerdict, parse_answer
from mst.judges.view import case_view, trial_view
from mst.model.base import Model
from mst.model.case import GraderSpec


class CommandPairwise:
    """Runs a program once per call. It sees `first` and `second`, laid out alike, never which side is which."""

    Options: ClassVar[type[Model]] = ProgramOptions
    deterministic: ClassVar[bool] = False

    def __init__(self, spec: GraderSpec) -> None:
        self._program = Program(spec, parse_options(spec, ProgramOptions))

    async def preflight(self, context: JudgeContext) -> None:
        """See `Program.preflight`."""
        await self._program.preflight(context)

    async def compare(
        self, baseline: Subject, candidate: Subject, context: JudgeContext, *, candidate_first: bool
    ) -> Choice:
        """Ask the program about both sides in one order.

        Its question is `{format, kind: "comparison", case, first, second}`, each side a trial with `artifacts` and
        `passed` (true, false or null).

        Raises:
            GraderError: no usable preference.
        """
        first, second = (candidate, baseline) if candidate_first else (baseline, candidate)
        async with call_folder(context.scratch) as folder:
            question = {
                "format": JUDGE_FORMAT,
                "kind": "comparison",
                "case": case_view(baseline.case),
                "first": await self._side(folder, first, "first"),
                "second": await self._side(folder, second, "second"),
            }
            answer = parse_answer(await self._program.ask(folder, context, question), PairVerdict)
            neutral = PairVerdict.model_validate(folder.neutral(answer.to_dict()))
        return neutral.choice(candidate_first=candidate_first)

    async def _side(self, folder: CallFolder, subject: Subject, name: str) -> dict[str, Any]:
        trial = trial_view(subject, max_tool_output=self._program.options.max_tool_output)
        artifacts = await self._program.artifacts(folder, subject, f"{name}/artifacts")
        return {**trial, "artifacts": artifacts, "passed": subject.passed}
