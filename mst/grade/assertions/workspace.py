"""Assertions on the exported workspace: files, and programs run in a private copy of it."""

from __future__ import annotations

import asyncio
from typing import Annotated, Any, ClassVar

from pydantic import ConfigDict, Field, ValidationError

from mst.errors import GraderError, ProgramError
from mst.grade.assertions.base import Assertion, ProgramAssertion, Text, Texts, listed, shown, verdict
from mst.judges.contract import JudgeContext, Subject
from mst.judges.folder import call_folder, fill
from mst.judges.options import Options
from mst.judges.program import Argv, need_secrets
from mst.judges.python import PythonOptions, returned
from mst.judges.python_call import PythonCall, call_python, context_fields, stderr_tail
from mst.judges.verdict import first_fault
from mst.model.base import Model, RelativePath
from mst.model.case import GraderSpec
from mst.model.score import GraderScore

READ_BYTES = 10 * 1024**2
OUTPUT_BYTES = 10 * 1024**2


class ExistsOptions(Options):
    """Options of `file_exists`."""

    main: ClassVar[str] = "value"

    value: RelativePath | Annotated[list[RelativePath], Field(min_length=1)]
    """Paths in the exported workspace; all must be there."""


class FileTextOptions(Options):
    """Options of `file_contains`."""

    path: RelativePath
    text: Text | Texts
    ignore_case: bool = False


class CommandOptions(Options):
    """Options of the `command` assertion."""

    main: ClassVar[str] = "argv"

    argv: Argv
    """`{{python}}`, `{{workspace}}` (also the working folder) and `{{files}}` (the listed files) are filled in."""
    exit_code: int | Annotated[list[int], Field(min_length=1)] = 0
    """The exit codes that pass."""


class _Returned(Model):
    """What a `python` assertion may return as a mapping."""

    model_config = ConfigDict(extra="forbid")

    passed: Annotated[bool, Field(strict=True, alias="pass")]
    details: str = ""
    score: Annotated[float, Field(ge=0, le=1, strict=True)] | None = None


def file_exists(subject: Subject, options: ExistsOptions) -> GraderScore:
    """The trial left every file."""
    left = {file.path for file in subject.artifact_files}
    faults = [f"no file {shown(path)}" for path in listed(options.value) if path not in left]
    return verdict(faults, f"has {shown(options.value)}")


async def file_contains(subject: Subject, options: FileTextOptions, _: GraderSpec, __: JudgeContext) -> GraderScore:
    """A file that the trial left holds every text. Read as UTF-8, other bytes replaced; at most 10 MiB."""
    found = next((file for file in subject.artifact_files if file.path == options.path), None)
    if found is None:
        return verdict([f"no file {shown(options.path)}"], "")
    if found.size > READ_BYTES:
        raise GraderError(f"{options.path}: {found.size} bytes, more than the {READ_BYTES} that file_contains reads")
    sha256 = found.sha256
    data = await asyncio.to_thread(lambda: subject.artifacts.locate(sha256).read_bytes())
    content = data.decode("utf-8", "replace")
    if options.ignore_case:
        content = content.casefold()
    faults = [
        f"{options.path} does not contain {shown(text)}"
        for text in listed(options.text)
        if (text.casefold() if options.ignore_case else text) not in content
    ]
    return verdict(faults, f"{options.path} contains {shown(options.text)}")


async def command(subject: Subject, options: CommandOptions, spec: GraderSpec, context: JudgeContext) -> GraderScore:
    """A program run in a private copy of the export ends with an exit code that passes.

    Raises:
        GraderError: it could not be started, timed out, or printed more than 10 MiB.
    """
    need_secrets(spec.secrets, context)
    async with call_folder(context.scratch) as folder:
        workspace = await folder.place(subject.artifact_files, subject.artifacts, "workspace")
        files = await folder.place(spec.files, context.files, "files")
        try:
            async with folder.enclosed(context.sandbox, workspace) as inside:
                seen = inside.seen
                result = await inside.run(
                    fill(options.argv, {"workspace": str(seen(workspace)), "files": str(seen(files))}),
                    cwd=workspace,
                    env=inside.environment(context.secrets),
                    timeout_s=context.timeout_s,
                    output_bytes=OUTPUT_BYTES,
                )
        except ProgramError as error:
            raise GraderError(str(error)) from error
        if result.timed_out:
            raise GraderError(f"{options.argv[0]} did not end within {context.timeout_s:g} s")
        if result.stopped is not None:
            raise GraderError(f"{options.argv[0]} reached its limit of {result.stopped} (sandbox)")
        if result.output_truncated:
            raise GraderError(f"{options.argv[0]} printed more than {OUTPUT_BYTES} bytes")
        code = result.exit_code
        passing = [options.exit_code] if isinstance(options.exit_code, int) else options.exit_code
        faults = [] if code in passing else [f"exit code {code}{stderr_tail(result, folder, context)}"]
    return verdict(faults, f"exit code {code}")


async def python(subject: Subject, options: PythonOptions, spec: GraderSpec, context: JudgeContext) -> GraderScore:
    """A function called with `ctx` in a process of its own says whether the trial passes.

    It returns true or false, or a mapping of `pass`, and `details` and `score` if it likes.

    Raises:
        GraderError: it raised, timed out, or returned something else.
    """
    need_secrets(spec.secrets, context)
    async with call_folder(context.scratch) as folder:
        workspace = await folder.place(subject.artifact_files, subject.artifacts, "workspace")
        fields = {
            **context_fields(subject, workspace),
            "variant": subject.record.variant,
            "trial": subject.record.trial,
        }
        call = PythonCall(
            target=options.call,
            files=spec.files,
            contexts=[fields],
            cwd=workspace,
            memory_bytes=options.memory_bytes,
        )
        value = returned(await call_python(call, folder, context))
    return _score(value)


def _score(value: Any) -> GraderScore:
    if isinstance(value, bool):
        value = {"pass": value}
    try:
        found = _Returned.model_validate(value)
    except ValidationError as error:
        raise GraderError(f"returned neither true, false nor a usable mapping: {first_fault(error)}") from error
    return GraderScore(passed=found.passed, details=found.details, score=found.score)


WORKSPACE_ASSERTIONS: dict[str, Assertion | ProgramAssertion] = {
    "file_exists": Assertion(Options=ExistsOptions, grade=file_exists),
    "file_contains": ProgramAssertion(Options=FileTextOptions, run=file_contains),
    "command": ProgramAssertion(Options=CommandOptions, run=command),
    "python": ProgramAssertion(Options=PythonOptions, run=python),
}
