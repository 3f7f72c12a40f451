"""The client that runs any program, or several in a row, in the workspace."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar, Literal, Self

from pydantic import Field, model_validator

from mst.clients.contract import ClientResult, Needs, TrialContext
from mst.clients.options import Environment, ListedFiles, Options, parse_options, secret_names, variant_environment
from mst.clients.parsers import PARSERS
from mst.clients.placeholders import Values, substitute
from mst.clients.program import (
    declared_path,
    diagnostics_of,
    limit_hit_of,
    listed_paths,
    place_listed,
    program_faults,
    resolve_listed,
    sandbox_of,
    trial_environment,
    usage_limit_of,
)
from mst.errors import ClientError, ErrorKind, ProgramError
from mst.model.base import Model
from mst.model.case import Case, Variant
from mst.model.transcript import Evidence, Transcript
from mst.model.trial import LimitHit
from mst.process.child import ChildResult
from mst.process.written import read_bounded

Argv = list[str]


class TranscriptFile(Options):
    """A file in the workspace that the program writes its transcript to."""

    file: str
    parser: Literal["text", "jsonl"] = "jsonl"


class CommandOptions(Options):
    """Options of the `command` client."""

    argv: Argv | None = Field(default=None, min_length=1)
    """The program and its arguments. Exactly one of `argv` and `steps`."""
    steps: list[Argv] | None = Field(default=None, min_length=1)
    """Several programs in a row; one that fails is the last. The last one's output counts."""
    input: Literal["stdin", "arg", "file", "none"] = "stdin"
    """How every step gets the prompt: `arg` appends it, `file` appends the path of a file that holds it."""
    cwd: str | None = None
    """Working folder relative to the workspace, which is the default."""
    env: Environment = {}
    files: ListedFiles = []
    """Files beside the config that the program needs: put into a private folder; arguments may name them."""
    ok_exit_codes: list[int] | Literal["any"] = [0]
    """Any other exit code is the program's failure (`error_kind: agent`)."""
    transcript: Literal["text", "jsonl"] | TranscriptFile = "text"

    @model_validator(mode="after")
    def _one_command(self) -> Self:
        if (self.argv is None) == (self.steps is None):
            raise ValueError("give either argv (one program) or steps (several in a row)")
        if not all(self.commands):
            raise ValueError("a step is an empty list; name a program")
        return self

    @property
    def commands(self) -> list[Argv]:
        """All steps; one for `argv`."""
        return [self.argv] if self.argv is not None else (self.steps or [])


@dataclass(frozen=True, kw_only=True)
class _Start:
    """What all steps of a trial share."""

    argv: list[Argv]
    cwd: Path
    env: dict[str, str] = field(repr=False)
    stdin: bytes | None


class Command:
    """Runs a program in a process group of its own. Its time limit is over all steps."""

    Options: ClassVar[type[Model]] = CommandOptions
    evidence: ClassVar[Evidence] = "none"
    starts_from: ClassVar[Literal["fixture", "solution"]] = "fixture"
    needs: ClassVar[Needs] = "workspace"

    def __init__(self, variant: Variant) -> None:
        self.options = parse_options(CommandOptions, variant)
        self.variant = variant
        self.sandbox = sandbox_of(variant)
        self._env: Environment = {**variant_environment(variant), **self.options.env}

    def secrets_needed(self) -> list[str]:
        """Names in `env`."""
        return secret_names(self._env)

    def preflight(self) -> list[str]:
        """Programs that are not installed, and a sandbox that is not available."""
        programs = [argv[0] for argv in self.options.commands]
        return [*self.sandbox.faults(), *program_faults(programs, self.options.files, self._env, self.sandbox)]

    def programs(self) -> dict[str, str | None]:
        """See `StartsPrograms`; files that the options list are told by their content there."""
        listed = set(listed_paths(self.options.files))
        names = dict.fromkeys(argv[0] for argv in self.options.commands)
        return {name: declared_path(self._env) for name in names if name.removeprefix("./") not in listed}

    async def run(self, case: Case, workspace: Path | None, context: TrialContext) -> ClientResult:
        """See `Client.run`."""
        if workspace is None:
            raise ClientError("the command client was given no workspace", "harness")
        start = await self._prepare(case, workspace, context)
        ended = await self._run_steps(start, context)
        return self._result(ended, workspace, context)

    async def close(self) -> None:
        """Nothing outlives a trial."""

    async def _prepare(self, case: Case, workspace: Path, context: TrialContext) -> _Start:
        options = self.options
        seen = context.enclosure.seen
        folder = seen(await place_listed(options.files, context))
        values = Values(
            input=case.input, prompt=context.prompt, workspace=seen(workspace), python=context.enclosure.python
        )
        outside = Values(input=case.input, prompt=context.prompt, workspace=workspace)
        appended = _appended(options.input, context)
        argv = [
            [*(substitute(part, values) for part in resolve_listed(step, options.files, folder)), *appended]
            for step in options.commands
        ]
        env = {name: substitute(v, values) if isinstance(v, str) else v for name, v in self._env.items()}
        return _Start(
            argv=argv,
            cwd=_inside(workspace, substitute(options.cwd or ".", outside)),
            env=trial_environment(env, context),
            stdin=context.prompt.encode() if options.input == "stdin" else None,
        )

    async def _run_steps(self, start: _Start, context: TrialContext) -> list[ChildResult]:
        limits = context.variant.trial_limits
        deadline = time.monotonic() + limits.time_s
        room = limits.output_bytes
        ended: list[ChildResult] = []
        for argv in start.argv:
            try:
                child = await context.enclosure.run(
                    argv,
                    cwd=start.cwd,
                    env=start.env,
                    stdin=start.stdin,
                    timeout_s=max(0.0, deadline - time.monotonic()),
                    output_bytes=room,
                )
            except ProgramError as error:
                raise ClientError(str(error)) from error
            ended.append(child)
            room -= len(child.stdout) + len(child.stderr)
            if limit_hit_of(child, limits) is not None or not self._is_ok(child):
                break
        return ended

    def _result(self, ended: list[ChildResult], workspace: Path, context: TrialContext) -> ClientResult:
        last = ended[-1]
        error, error_kind, limit_hit = self._judge_end(last, context)
        transcript, notes = self._transcript(last, workspace, context)
        used = usage_limit_of(transcript.usage, context.variant.trial_limits)
        if limit_hit is None and error_kind is None and used is not None:
            error, limit_hit = used
        if error is not None and transcript.error is None:
            transcript = transcript.model_copy(update={"error": error})
        diagnostics = {**diagnostics_of(last), **notes}
        left = sorted(name for child in ended for name in child.leftovers)
        if left:
            diagnostics["leftProcesses"] = left
        if len(ended) > 1:
            diagnostics["steps"] = [{"exitCode": c.exit_code, "durationMs": round(c.duration_ms, 3)} for c in ended]
        return ClientResult(
            transcript=transcript,
            exit_code=last.exit_code,
            limit_hit=limit_hit,
            error=error if error_kind is not None else None,
            error_kind=error_kind,
            agent_duration_ms=sum(child.duration_ms for child in ended),
            diagnostics=diagnostics or None,
        )

    def _judge_end(
        self, last: ChildResult, context: TrialContext
    ) -> tuple[str | None, ErrorKind | None, LimitHit | None]:
        reached = limit_hit_of(last, context.variant.trial_limits)
        if reached is not None:
            return reached[0], None, reached[1]
        if self._is_ok(last):
            return None, None, None
        how = f"signal {-last.exit_code}" if last.exit_code < 0 else f"exit code {last.exit_code}"
        return f"the program ended with {how}", "agent", None

    def _is_ok(self, child: ChildResult) -> bool:
        return self.options.ok_exit_codes == "any" or child.exit_code in self.options.ok_exit_codes

    def _transcript(
        self, last: ChildResult, workspace: Path, context: TrialContext
    ) -> tuple[Transcript, dict[str, Any]]:
        wanted = self.options.transcript
        output: bytes | None = last.stdout
        parser = wanted
        if isinstance(wanted, TranscriptFile):
            parser = wanted.parser
            output = read_bounded(workspace, wanted.file, context.variant.trial_limits.output_bytes)
        if output is None:
            return Transcript(), {"transcriptFile": "missing, too large, or not a plain file in the workspace"}
        transcript, unused = PARSERS[str(parser)](output)
        return transcript, {"transcriptLinesUnused": unused} if unused else {}


def _appended(how: str, context: TrialContext) -> list[str]:
    if how == "arg":
        return [context.prompt]
    if how == "file":
        path = context.scratch / "input"
        path.write_text(context.prompt, encoding="utf-8")
        return [str(context.enclosure.seen(path))]
    return []


def _inside(workspace: Path, relative: str) -> Path:
    folder = (workspace / relative).resolve()
    if not folder.is_relative_to(workspace.resolve()):
        raise ClientError(f"cwd {relative!r} leaves the workspace", "harness")
    return folder
