"""A judge that is a program: a case and a trial as JSON on stdin, a verdict as JSON on stdout."""

from __future__ import annotations

from typing import ClassVar

from mst.judges.contract import Finding, JudgeContext, Subject
from mst.judges.folder import call_folder
from mst.judges.options import parse_options
from mst.judges.program import Program, ProgramOptions
from mst.judges.verdict import Verdict, parse_answer
from mst.judges.view import case_view, trial_view
from mst.model.base import Model
from mst.model.case import GraderSpec

JUDGE_FORMAT = "mst.judge/v1"


class CommandJudge:
    """Runs a program once per call, in a folder with its files, its environment made from nothing."""

    Options: ClassVar[type[Model]] = ProgramOptions

    def __init__(self, spec: GraderSpec) -> None:
        self._program = Program(spec, parse_options(spec, ProgramOptions))

    async def preflight(self, context: JudgeContext) -> None:
        """See `Program.preflight`."""
        await self._program.preflight(context)

    async def evaluate(self, subject: Subject, context: JudgeContext) -> Finding:
        """Ask the program about one trial.

        Its question is `{format, kind: "trial", case, trial}`; `trial.artifacts` is the path of a private copy of
        what the trial left.

        Raises:
            GraderError: no usable verdict.
        """
        async with call_folder(context.scratch) as folder:
            artifacts = await self._program.artifacts(folder, subject, "artifacts")
            trial = trial_view(subject, max_tool_output=self._program.options.max_tool_output)
            question = {
                "format": JUDGE_FORMAT,
                "kind": "trial",
                "case": case_view(subject.case),
                "trial": {**trial, "artifacts": artifacts},
            }
            answer = parse_answer(await self._program.ask(folder, context, question), Verdict)
            return Verdict.model_validate(folder.neutral(answer.to_dict())).finding()
