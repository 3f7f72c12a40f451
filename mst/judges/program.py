"""Judges that are programs: how one is started, fed and bounded, and what it needs before the first case."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, ClassVar

from pydantic import Field

from mst.errors import GraderError, ProgramError
from mst.judges.contract import JudgeContext, Subject
from mst.judges.folder import CallFolder, call_folder, fill
from mst.judges.options import Options
from mst.judges.python_call import stderr_tail
from mst.model.case import GraderSpec
from mst.process.child import run_child

OUTPUT_BYTES = 1024**2
PREFLIGHT_S = 60.0
Argv = Annotated[list[str], Field(min_length=1)]


class Preflight(Options):
    """A program that is run once on the worker, in the judge's folder and environment; it must exit 0."""

    main: ClassVar[str] = "argv"

    argv: Argv
    timeout_s: float = Field(default=PREFLIGHT_S, gt=0)


class ProgramOptions(Options):
    """Options of judges that are programs."""

    main: ClassVar[str] = "argv"

    argv: Argv
    """The program. `{{python}}` is this interpreter, `{{files}}` the folder with the judge's files."""
    env: dict[str, str] = {}
    """Settings for its environment; secrets are listed under `secrets` instead."""
    preflight: Preflight | None = None
    """Run once per worker before any case is graded, for instance to find a key that is refused."""
    artifacts: bool = True
    """Whether it gets a copy of the files that the trial left."""
    max_tool_output: int | None = Field(default=None, ge=0)
    """Characters that it sees of each event's output."""
    model: str | None = None
    """Part of the judge's identity when it is a model behind a program."""


class Program:
    """One judge's program.

    Args:
        spec: with its files and the names of its secrets.
        options: validated.
    """

    def __init__(self, spec: GraderSpec, options: ProgramOptions) -> None:
        self._spec = spec
        self.options = options

    async def preflight(self, context: JudgeContext) -> None:
        """Check that the program and its secrets are here, then run the declared preflight.

        Raises:
            GraderError: with what is missing, or the preflight's last words.
        """
        need_secrets(self._spec.secrets, context)
        need_program(self.options.argv[0], self._spec)
        wanted = self.options.preflight
        if wanted is None:
            return
        need_program(wanted.argv[0], self._spec)
        async with call_folder(context.scratch) as folder:
            await self._run(folder, context, wanted.argv, stdin=None, timeout_s=wanted.timeout_s, what="preflight")

    async def ask(self, folder: CallFolder, context: JudgeContext, question: Mapping[str, Any]) -> bytes:
        """Give a question on stdin and return what the program printed.

        Raises:
            GraderError: it could not be started, timed out, printed too much or exited with another code than 0.
        """
        need_secrets(self._spec.secrets, context)
        data = json.dumps(question, ensure_ascii=False).encode()
        return await self._run(
            folder, context, self.options.argv, stdin=data, timeout_s=context.timeout_s, what="the program"
        )

    async def artifacts(self, folder: CallFolder, subject: Subject, into: str) -> str | None:
        """Copy what a trial left below a subfolder of the call and return its path, or None when not wanted."""
        if not self.options.artifacts:
            return None
        return str(await folder.place(subject.artifact_files, subject.artifacts, into))

    async def _run(
        self,
        folder: CallFolder,
        context: JudgeContext,
        argv: Sequence[str],
        *,
        stdin: bytes | None,
        timeout_s: float,
        what: str,
    ) -> bytes:
        files = await folder.place(self._spec.files, context.files, "files")
        try:
            result = await run_child(
                fill(argv, {"files": str(files)}),
                cwd=files,
                env=folder.environment({**self.options.env, **context.secrets}),
                stdin=stdin,
                timeout_s=timeout_s,
                output_bytes=OUTPUT_BYTES,
            )
        except ProgramError as error:
            raise GraderError(str(error)) from error
        if result.timed_out:
            raise GraderError(f"{what} did not end within {timeout_s:g} s")
        if result.output_truncated:
            raise GraderError(f"{what} printed more than {OUTPUT_BYTES} bytes")
        if result.exit_code != 0:
            raise GraderError(f"{what} ended with exit code {result.exit_code}{stderr_tail(result, folder, context)}")
        return result.stdout


def need_secrets(names: Sequence[str], context: JudgeContext) -> None:
    """Make sure that every listed secret has a value.

    Raises:
        GraderError: naming those without.
    """
    absent = [name for name in names if not context.secrets.get(name)]
    if absent:
        raise GraderError(f"no value for {', '.join(absent)}; give it in the secrets file")


def need_program(name: str, spec: GraderSpec) -> None:
    """Make sure that a program can be found: a listed file, a path, or a name on this machine's PATH.

    Raises:
        GraderError: with the fix.
    """
    if "{{" in name:
        return
    if "/" not in name:
        found = shutil.which(name) is not None
    elif Path(name).is_absolute():
        found = os.access(name, os.X_OK)
    else:
        found = any(file.path == os.path.normpath(name) for file in spec.files)
    if not found:
        where = (
            "list it under 'files'" if "/" in name and not Path(name).is_absolute() else "install it on this machine"
        )
        raise GraderError(f"{name}: no such program; {where}")
