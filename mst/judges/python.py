"""A judge that is a Python callable, run in a process of its own."""

from __future__ import annotations

import importlib.util
import os
import re
from typing import Any, ClassVar

from pydantic import Field, field_validator

from mst.errors import GraderError
from mst.judges.contract import Finding, JudgeContext, Subject
from mst.judges.folder import call_folder
from mst.judges.options import Options, parse_options
from mst.judges.program import need_secrets
from mst.judges.python_call import MEMORY_BYTES, Called, PythonCall, call_python, context_fields
from mst.judges.verdict import Verdict, check_answer
from mst.model.base import Model
from mst.model.case import GraderSpec

_TARGET = re.compile(r"(?:(?:[\w-]+|\.)/)*[\w-]+\.py:[A-Za-z_][\w.]*|[A-Za-z_][\w.]*:[A-Za-z_][\w.]*")
_MIN_MEMORY_BYTES = 64 * 1024**2


class PythonOptions(Options):
    """Options of graders that are Python callables."""

    main: ClassVar[str] = "call"

    call: str
    """`./graders.py:function` of a listed file, or `module:function` of an installed package."""
    memory_bytes: int = Field(default=MEMORY_BYTES, ge=_MIN_MEMORY_BYTES)
    """Bound of its address space."""

    @field_validator("call")
    @classmethod
    def _is_target(cls, value: str) -> str:
        if not _TARGET.fullmatch(value):
            raise ValueError(f"{value!r} is neither ./file.py:function nor module:function")
        return value


class PythonJudge:
    """Calls a function with `ctx` once per trial; it returns a score or a mapping like a command judge's verdict."""

    Options: ClassVar[type[Model]] = PythonOptions

    def __init__(self, spec: GraderSpec) -> None:
        self._spec = spec
        self._options = parse_options(spec, PythonOptions)

    async def preflight(self, context: JudgeContext) -> None:
        """Check that the function's file or module is here; nothing is loaded.

        Raises:
            GraderError: with the fix.
        """
        need_secrets(self._spec.secrets, context)
        need_target(self._options.call, self._spec)

    async def evaluate(self, subject: Subject, context: JudgeContext) -> Finding:
        """Call the function on one trial. It does not learn the variant.

        Raises:
            GraderError: it raised, timed out, or returned what is no verdict.
        """
        need_secrets(self._spec.secrets, context)
        async with call_folder(context.scratch) as folder:
            workspace = await folder.place(subject.artifact_files, subject.artifacts, "workspace")
            call = PythonCall(
                target=self._options.call,
                files=self._spec.files,
                contexts=[context_fields(subject, workspace)],
                cwd=workspace,
                memory_bytes=self._options.memory_bytes,
            )
            value = returned(await call_python(call, folder, context))
        if isinstance(value, int | float) and not isinstance(value, bool):
            value = {"score": value}
        return check_answer(value, Verdict).finding()


def returned(called: Called) -> Any:
    """The value that a judge's function returned.

    Raises:
        GraderError: there is none, or it asked for what a judge cannot have.
    """
    if called.missing:
        raise GraderError(f"asked for {', '.join(called.missing)}, which judges do not have")
    if called.error is not None:
        raise GraderError(called.error)
    return called.value


def need_target(target: str, spec: GraderSpec) -> None:
    """Make sure that what a grader calls can be loaded.

    Raises:
        GraderError: with the fix.
    """
    source = target.rpartition(":")[0]
    if source.endswith(".py"):
        if os.path.normpath(source) not in {file.path for file in spec.files}:
            raise GraderError(f"{source}: not among this grader's files; list it under 'files'")
        return
    root = source.partition(".")[0]
    if importlib.util.find_spec(root) is None:
        raise GraderError(f"{source}: no such module; install the package that brings it")
