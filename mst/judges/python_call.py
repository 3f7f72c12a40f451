"""Calling a Python grader in a process of its own: a deadline, a memory limit, and its questions answered here.

The parent's end of `python_child.py`. What the grader asks for and does not get is remembered at this end, so that
swallowing the error there does not hide it.
"""

from __future__ import annotations

import asyncio
import json
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from mst.errors import GraderError, ProgramError
from mst.judges import strictjson
from mst.judges.contract import JudgeContext, Subject
from mst.judges.folder import CallFolder, fill
from mst.judges.line import LINE_BYTES, NamedLine, PassedLine
from mst.judges.view import case_view
from mst.model.base import FileRef
from mst.process.child import ChildResult
from mst.process.lastwords import last_words
from mst.sandboxes.contract import Enclosure

MEMORY_BYTES = 2 * 1024**3
"""Address space of a grader unless it says otherwise."""
TRANSCRIPT_CHARACTERS = 131_072
PRINTED_BYTES = 1024**2
MAX_JUDGMENTS = 1000
_SCRIPT = Path(__file__).with_name("python_child.py")
_LAST_WORDS_S = 5.0


@dataclass(frozen=True, kw_only=True)
class PythonCall:
    """What to call and with what.

    Attributes:
        target: `./path.py:function` below the grader's files, or `module:function` of an installed package.
        files: the grader's files.
        contexts: attributes of each argument; see `context_fields`.
        cwd: working folder of the call and of the programs that it runs.
    """

    target: str
    files: Sequence[FileRef]
    contexts: Sequence[dict[str, Any]]
    cwd: Path
    memory_bytes: int = MEMORY_BYTES


@dataclass(kw_only=True)
class Called:
    """What came of a call.

    Attributes:
        error: why there is no `value`.
        missing: capabilities that were asked for in vain, in order, each once.
        judgments: what `add_judgment` was given, before an error too.
    """

    value: Any = None
    error: str | None = None
    missing: list[str] = field(default_factory=list)
    judgments: list[Any] = field(default_factory=list)


def context_fields(subject: Subject, workspace: Path) -> dict[str, Any]:
    """The attributes of a grader's `ctx` for one trial, but for `variant` and `trial`, which judges do not see.

    `transcript` is JSON text of at most 131,072 characters; `truncated` says that it was cut. `workspace` is a `Path`
    in the call, a private copy of the export.
    """
    record = subject.record
    transcript = record.transcript.to_json().decode() if record.transcript is not None else "{}"
    return {
        "case": {**case_view(subject.case), "kind": subject.case.kind},
        "workspace": str(workspace),
        "diff": record.diff,
        "final_text": subject.text,
        "transcript": transcript[:TRANSCRIPT_CHARACTERS],
        "truncated": len(transcript) > TRANSCRIPT_CHARACTERS,
        "error": record.error or (record.transcript.error if record.transcript is not None else None),
    }


async def call_python(call: PythonCall, folder: CallFolder, context: JudgeContext) -> Called:
    """Run one call to its end. Every fault of the grader is in `Called.error`, texts without the folder's path.

    Raises:
        GraderError: the interpreter could not be started.
        ObjectMissing, DigestMismatch: a file of the grader could not be placed.
    """
    files = await folder.place(call.files, context.files, "files")
    async with folder.enclosed(context.sandbox, call.cwd) as inside:
        return await _call(call, files, folder, context, inside)


async def _call(call: PythonCall, files: Path, folder: CallFolder, context: JudgeContext, inside: Enclosure) -> Called:
    env = inside.environment(context.secrets)
    request = {
        "target": call.target,
        "folder": str(inside.seen(files)),
        "contexts": [_seen(fields, inside) for fields in call.contexts],
        "memory_bytes": call.memory_bytes,
    }
    line = PassedLine() if inside.passes_descriptors else NamedLine(folder.root, inside)
    session = _Session(call=call, env=env, inside=inside, deadline=time.monotonic() + context.timeout_s)
    serving = asyncio.create_task(session.serve(line, request))
    try:
        child = await inside.run(
            [inside.python, "-I", "-B", str(_SCRIPT), line.told],
            cwd=call.cwd,
            env=env,
            timeout_s=context.timeout_s,
            output_bytes=PRINTED_BYTES,
            grace_s=0.1,
            on_start=line.started,
            pass_fds=line.pass_fds,
            read=[_SCRIPT],
        )
        if line.connected:
            await asyncio.wait({serving}, timeout=_LAST_WORDS_S)
    except ProgramError as error:
        raise GraderError(str(error)) from error
    finally:
        serving.cancel()
        await asyncio.gather(serving, return_exceptions=True)
        line.close()
    return _settled(session, child, folder, context)


def _seen(fields: dict[str, Any], inside: Enclosure) -> dict[str, Any]:
    workspace = fields.get("workspace")
    return fields if workspace is None else {**fields, "workspace": str(inside.seen(Path(workspace)))}


class _Session:
    """One conversation with a child."""

    def __init__(
        self,
        *,
        call: PythonCall,
        env: dict[str, str],
        inside: Enclosure,
        deadline: float,
    ) -> None:
        self.called = Called()
        self.finished = False
        self._writer: asyncio.StreamWriter
        self._call = call
        self._env = env
        self._inside = inside
        self._deadline = deadline

    async def serve(self, line: PassedLine | NamedLine, request: dict[str, Any]) -> None:
        """Send the request and answer until the result, an error, or the child's end."""
        try:
            reader, self._writer = await line.open()
            await self._send(request)
            while not self.finished:
                said = await reader.readline()
                if not said:
                    return
                await self._handle(strictjson.loads(said))
        except ConnectionError:
            return
        except ValueError as error:
            self._fail(f"returned what is not usable: {_unusable(error)}")

    async def _handle(self, message: Any) -> None:
        match message:
            case {"result": value}:
                self.called.value = value
                self.finished = True
            case {"error": str(reason)}:
                self._fail(reason)
            case {"missing": str(capability)}:
                if capability not in self.called.missing and len(self.called.missing) < 10:
                    self.called.missing.append(capability)
            case {"judgment": judgment}:
                if len(self.called.judgments) >= MAX_JUDGMENTS:
                    raise ValueError(f"more than {MAX_JUDGMENTS} judgments")
                self.called.judgments.append(judgment)
            case {"exec": list(argv), "timeout_s": float() | int() as timeout_s}:
                await self._send(await self._exec([str(part) for part in argv], float(timeout_s)))
            case _:
                raise ValueError("an unknown message on its private channel")

    async def _exec(self, argv: list[str], timeout_s: float) -> dict[str, Any]:
        left = self._deadline - time.monotonic()
        try:
            result = await self._inside.run(
                fill(argv, {"workspace": str(self._inside.seen(self._call.cwd)), "python": self._inside.python}),
                cwd=self._call.cwd,
                env=self._env,
                timeout_s=max(0.0, min(timeout_s, left)),
                output_bytes=PRINTED_BYTES,
                grace_s=0.5,
                on_start=self._limit_memory if self._inside.passes_descriptors else None,
            )
        except ProgramError as error:
            return {"error": str(error)}
        return {
            "exit_code": result.exit_code,
            "stdout": result.stdout.decode("utf-8", "replace"),
            "stderr": result.stderr.decode("utf-8", "replace"),
            "timed_out": result.timed_out,
        }

    def _limit_memory(self, pid: int) -> None:
        if sys.platform != "linux":
            return
        import resource  # noqa: PLC0415 - not on every platform

        limit = self._call.memory_bytes
        try:
            resource.prlimit(pid, resource.RLIMIT_AS, (limit, limit))
        except (OSError, ValueError):
            return  # it has ended already, or the machine's own limit is lower

    async def _send(self, message: dict[str, Any]) -> None:
        self._writer.write(json.dumps(message).encode() + b"\n")
        await self._writer.drain()

    def _fail(self, reason: str) -> None:
        self.called.error = reason
        self.finished = True


def _settled(session: _Session, child: ChildResult, folder: CallFolder, context: JudgeContext) -> Called:
    called = session.called
    if not session.finished:
        called.error = _why_no_result(child, folder, context)
    called.value = folder.neutral(called.value)
    called.error = folder.neutral(called.error)
    called.judgments = folder.neutral(called.judgments)
    return called


def _why_no_result(child: ChildResult, folder: CallFolder, context: JudgeContext) -> str:
    if child.timed_out:
        return f"did not end within {context.timeout_s:g} s"
    if child.output_truncated:
        return f"printed more than {PRINTED_BYTES} bytes"
    return f"ended with exit code {child.exit_code} and without a result{stderr_tail(child, folder, context)}"


def stderr_tail(child: ChildResult, folder: CallFolder, context: JudgeContext) -> str:
    """`: ` and a program's last words on its error stream, redacted before they are cut; empty when it said none."""
    text = last_words(folder.neutral(context.redact(child.stderr.decode("utf-8", "replace"))), limit=500)
    return f": {text}" if text else ""


def _unusable(error: ValueError) -> str:
    # readline reports a line over the limit in the stream's own words.
    return f"more than {LINE_BYTES} bytes" if "limit" in str(error) or "Separator" in str(error) else str(error)
