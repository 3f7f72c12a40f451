"""A pairwise judge that is a Python callable, run in a process of its own."""

from __future__ import annotations

from typing import Any, ClassVar

from mst.judges.contract import Choice, JudgeContext, Subject
from mst.judges.folder import CallFolder, call_folder
from mst.judges.options import parse_options
from mst.judges.program import need_secrets
from mst.judges.python import PythonOptions, need_target, returned
from mst.judges.python_call import PythonCall, call_python, context_fields
from mst.judges.verdict import PairVerdict, check_answer
from mst.model.base import Model
from mst.model.case import GraderSpec


class PythonPairwise:
    """Calls a function with `first` and `second`; it returns `first`, `second`, `tie`, or a mapping with more."""

    Options: ClassVar[type[Model]] = PythonOptions
    deterministic: ClassVar[bool] = False

    def __init__(self, spec: GraderSpec) -> None:
        self._spec = spec
        self._options = parse_options(spec, PythonOptions)

    async def preflight(self, context: JudgeContext) -> None:
        """See `PythonJudge.preflight`."""
        need_secrets(self._spec.secrets, context)
        need_target(self._options.call, self._spec)

    async def compare(
        self, baseline: Subject, candidate: Subject, context: JudgeContext, *, candidate_first: bool
    ) -> Choice:
        """Call the function on both sides in one order. Each has the attributes of a judge's `ctx`, and `passed`.

        Raises:
            GraderError: it raised, timed out, or returned what is no preference.
        """
        need_secrets(self._spec.secrets, context)
        first, second = (candidate, baseline) if candidate_first else (baseline, candidate)
        async with call_folder(context.scratch) as folder:
            contexts = [await _side(folder, first, "first"), await _side(folder, second, "second")]
            call = PythonCall(
                target=self._options.call,
                files=self._spec.files,
                contexts=contexts,
                cwd=folder.root,
                memory_bytes=self._options.memory_bytes,
            )
            value = returned(await call_python(call, folder, context))
        if isinstance(value, str):
            value = {"preference": value}
        return check_answer(value, PairVerdict).choice(candidate_first=candidate_first)


async def _side(folder: CallFolder, subject: Subject, name: str) -> dict[str, Any]:
    workspace = await folder.place(subject.artifact_files, subject.artifacts, f"{name}/workspace")
    return {**context_fields(subject, workspace), "passed": subject.passed}
