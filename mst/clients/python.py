"""The client that calls a Python function, in a child process with a deadline."""

from __future__ import annotations

import ast
import importlib.util
import json
import sys
from pathlib import Path
from typing import Any, ClassVar, Literal

from pydantic import Field, ValidationError

from mst.clients import python_child
from mst.clients.contract import ClientResult, Needs, TrialContext
from mst.clients.options import (
    Environment,
    ListedFiles,
    Options,
    listed_files,
    parse_options,
    secret_names,
    variant_environment,
)
from mst.clients.parsers import closing_fields
from mst.clients.program import (
    diagnostics_of,
    limit_hit_of,
    listed_paths,
    place_listed,
    sandbox_faults,
    trial_environment,
)
from mst.config.files import FileSource
from mst.errors import ClientError, ProgramError
from mst.model.base import Model
from mst.model.case import Case, Variant
from mst.model.transcript import Event, Evidence, Transcript
from mst.process.child import ChildResult
from mst.process.written import read_bounded


class PythonOptions(Options):
    """Options of the `python` client."""

    function: str = Field(pattern=r"^[^:]+:[A-Za-z_][\w.]*$")
    """`package.module:function`, importable on the machine that collects, or `./file.py:function` of a listed file."""
    env: Environment = {}
    files: ListedFiles = []
    """Files beside the config that it needs; their folder is first on its import path."""


class PythonCallable:
    """Calls `function(input)` or `function(input, context)`; plain or async.

    `input` is the case's input, or the prompt where the variant has an `input_template`. `context` is a dict:
    `case_id`, `variant`, `trial`, `model`, `workspace` (a path or None). It answers a text, or a dict with any of
    `final_text`, `events`, `usage`, `error`, `evidence`. It runs in the workspace when there is one.
    """

    Options: ClassVar[type[Model]] = PythonOptions
    evidence: ClassVar[Evidence] = "none"
    starts_from: ClassVar[Literal["fixture", "solution"]] = "fixture"
    needs: ClassVar[Needs] = "scratch"

    def __init__(self, variant: Variant) -> None:
        self.options = parse_options(PythonOptions, variant)
        self.variant = variant
        self._env: Environment = {**variant_environment(variant), **self.options.env}

    def secrets_needed(self) -> list[str]:
        """Names in `env`."""
        return secret_names(self._env)

    def preflight(self) -> list[str]:
        """A file that is not listed, a package that is not installed, a sandbox that is not available."""
        faults = sandbox_faults(self.variant)
        where = self.options.function.rpartition(":")[0]
        if where.endswith(".py"):
            if where.removeprefix("./") not in listed_paths(self.options.files):
                faults.append(f"{where}: not among client_options.files; list it there")
        elif not self.options.files and importlib.util.find_spec(where.partition(".")[0]) is None:
            faults.append(f"{where}: no such module here; install its package, or list its file under files")
        return faults

    def modules(self, files: FileSource) -> list[str]:
        """See `ImportsPackages`: the function's own module, and what the listed files import."""
        where = self.options.function.rpartition(":")[0]
        found = {where.partition(".")[0]} if not where.endswith(".py") else set()
        listed = [file for file in listed_files(self.options.files) if file.path.endswith(".py")]
        for file in listed:
            found |= _imported(files.locate(file.sha256))
        own = {part for file in listed for part in (Path(file.path).stem, Path(file.path).parts[0])}
        return sorted(found - own - sys.stdlib_module_names)

    async def run(self, case: Case, workspace: Path | None, context: TrialContext) -> ClientResult:
        """See `Client.run`."""
        seen = context.enclosure.seen
        folder = seen(await place_listed(self.options.files, context))
        request = context.scratch / "request.json"
        answer = context.scratch / "answer.json"
        request.write_text(json.dumps(self._request(case, workspace, context, folder)), encoding="utf-8")
        limits = context.variant.trial_limits
        try:
            child = await context.enclosure.run(
                # -P: this script's folder must not come before the modules that the function imports.
                [context.enclosure.python, "-P", python_child.__file__, str(seen(request)), str(seen(answer))],
                cwd=workspace or context.scratch,
                env=trial_environment(self._env, context),
                timeout_s=limits.time_s,
                output_bytes=limits.output_bytes,
                read=[Path(python_child.__file__)],
            )
        except ProgramError as error:
            raise ClientError(str(error)) from error
        return _result(child, answer, context)

    async def close(self) -> None:
        """Nothing outlives a trial."""

    def _request(self, case: Case, workspace: Path | None, context: TrialContext, folder: Path) -> dict[str, Any]:
        return {
            "function": self.options.function,
            "folder": str(folder),
            "input": case.input if context.variant.input_template is None else context.prompt,
            "context": {
                "case_id": case.id,
                "variant": context.variant.name,
                "trial": context.trial,
                "model": context.variant.model,
                "workspace": None if workspace is None else str(context.enclosure.seen(workspace)),
            },
        }


def _imported(path: Path) -> set[str]:
    """Top-level names that a file imports, anywhere in it; none when it is no Python: that is told when it runs."""
    try:
        tree = ast.parse(path.read_bytes())
    except (SyntaxError, ValueError):
        return set()
    found = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            found |= {alias.name.partition(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module is not None and node.level == 0:
            found.add(node.module.partition(".")[0])
    return found


def _result(child: ChildResult, answer: Path, context: TrialContext) -> ClientResult:
    limits = context.variant.trial_limits
    common: dict[str, Any] = {
        "exit_code": child.exit_code,
        "agent_duration_ms": child.duration_ms,
        "diagnostics": _diagnostics(child),
    }
    reached = limit_hit_of(child, limits)
    written = None if reached is not None else read_bounded(context.scratch, answer.name, limits.output_bytes)
    if reached is None and written is None and answer.exists():
        reached = f"ended at its output limit of {limits.output_bytes} bytes", "output"
    if reached is not None:
        return ClientResult(transcript=Transcript(error=reached[0]), limit_hit=reached[1], **common)
    # No answer: the function ended its process.
    found = {"outcome": "raised"} if written is None else json.loads(written)
    if found["outcome"] == "not loaded":
        raise ClientError(f"the function could not be loaded: {_last_line(child)}")
    if found["outcome"] == "raised":
        return _failed(f"the function failed: {_last_line(child)}", common)
    try:
        transcript = _transcript(found["value"])
    except (ValueError, TypeError) as error:
        return _failed(f"the function's answer can't be used: {error}", common)
    return ClientResult(transcript=transcript, **common)


def _failed(text: str, common: dict[str, Any]) -> ClientResult:
    return ClientResult(transcript=Transcript(error=text), error=text, error_kind="agent", **common)


def _transcript(value: Any) -> Transcript:
    if isinstance(value, str):
        return Transcript(final_text=value)
    if not isinstance(value, dict):
        raise TypeError(f"a text or a dict was expected, not {type(value).__name__}")
    try:
        events = [Event.model_validate(event) for event in value.get("events", [])]
        evidence = value.get("evidence", "observed" if events else "none")
        return Transcript.model_validate(
            {**closing_fields(value), "events": [event.to_dict() for event in events], "evidence": evidence}
        )
    except ValidationError as error:
        fault = error.errors(include_url=False, include_input=False)[0]
        raise ValueError(f"{'.'.join(map(str, fault['loc']))}: {fault['msg']}") from error


def _diagnostics(child: ChildResult) -> dict[str, Any] | None:
    found = diagnostics_of(child)
    if child.stdout:
        found["stdout"] = child.stdout[-4096:].decode(errors="replace")
    return found or None


def _last_line(child: ChildResult) -> str:
    lines = child.stderr.decode(errors="replace").strip().splitlines()
    if lines:
        return lines[-1]
    return f"it ended the process with code {child.exit_code} and no answer"
