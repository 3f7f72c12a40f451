"""The folders of one trial: a workspace for the program, a private scratch folder, and the export of what was left."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import ParamSpec, TypeVar

from mst.clients.placeholders import Values, substitute
from mst.collect.baseline import Baseline, baseline_of_files, baseline_of_folder
from mst.collect.export import Export, export
from mst.collect.patch import make_patch
from mst.config.files import FileSource, place
from mst.errors import ClientError, InfrastructureError, ProgramError
from mst.model.base import FileRef
from mst.model.case import Case, StageTimeouts, TrialLimits, Variant
from mst.process.finishing import in_thread
from mst.process.lastwords import last_words
from mst.process.redact import Redactor
from mst.sandboxes.contract import Enclosure

_COMMAND_OUTPUT_BYTES = 1024 * 1024
P = ParamSpec("P")
T = TypeVar("T")


@dataclass(frozen=True)
class Folders:
    """Where one trial happens. `workspace` is None when neither the case nor the client needs one."""

    root: Path
    workspace: Path | None
    scratch: Path


def make_folders(scratch_root: Path, *, with_workspace: bool) -> Folders:
    """Make the private folders of a trial. Takes well under a millisecond.

    Raises:
        ClientError: `environment`: they can't be made.
    """
    try:
        # Private to this user: mkdtemp makes 0700.
        root = Path(tempfile.mkdtemp(prefix="trial-", dir=scratch_root))
        scratch = root / "scratch"
        scratch.mkdir(mode=0o700)
        workspace = root / "workspace" if with_workspace else None
        if workspace is not None:
            workspace.mkdir()
    except OSError as error:
        raise ClientError(f"no folder for the trial in {scratch_root}: {error.strerror}") from error
    return Folders(root, workspace, scratch)


async def prepare(
    case: Case,
    variant: Variant,
    folders: Folders,
    enclosure: Enclosure,
    *,
    files: FileSource,
    timeouts: StageTimeouts,
    prompt: str,
) -> Baseline:
    """Fill the workspace: fixture, the variant's files over it, `setup` commands. Returns what the program is given.

    Raises:
        ClientError: `environment`: a file is missing or changed, a command failed or took too long.
    """
    workspace = folders.workspace
    assert workspace is not None
    placed = _overlaid(case.fixture or [], variant.files)
    try:
        if not case.setup:
            return await in_thread(_place_all, placed, files, workspace)
        await in_thread(place, placed, files, workspace)
        await run_commands(
            case.setup, case, folders, enclosure, what="setup", timeout_s=timeouts.setup_s, prompt=prompt
        )
        return await in_thread(baseline_of_folder, workspace, placed, files, folders.root / "baseline")
    except (InfrastructureError, OSError) as error:
        raise ClientError(f"the workspace could not be made: {error}") from error


def _place_all(placed: Sequence[FileRef], files: FileSource, workspace: Path) -> Baseline:
    place(placed, files, workspace)
    return baseline_of_files(placed, files)


async def lay_solution(case: Case, workspace: Path, files: FileSource) -> None:
    """Put the reference solution over the fixture, as if the program had made it.

    Raises:
        ClientError: `environment`: a file is missing or changed.
    """
    try:
        await in_thread(place, case.solution or [], files, workspace)
    except (InfrastructureError, OSError) as error:
        raise ClientError(f"the solution could not be laid over the fixture: {error}") from error


async def run_commands(
    commands: Sequence[Sequence[str]],
    case: Case,
    folders: Folders,
    enclosure: Enclosure,
    *,
    what: str,
    timeout_s: float,
    prompt: str,
) -> None:
    """Run a case's commands in its workspace and sandbox, one after another, with a clean environment.

    Raises:
        ClientError: `environment`: one can't be started, fails, or their common time is over; with its last words.
    """
    workspace = folders.workspace
    assert workspace is not None
    values = Values(input=case.input, prompt=prompt, workspace=enclosure.seen(workspace), python=enclosure.python)
    env = enclosure.environment({})
    deadline = time.monotonic() + timeout_s
    for number, command in enumerate(commands, 1):
        argv = [substitute(part, values) for part in command]
        where = f"{what} command {number} ({command[0] if command else 'empty'})"
        try:
            ended = await enclosure.run(
                argv,
                cwd=workspace,
                env=env,
                timeout_s=max(0.0, deadline - time.monotonic()),
                output_bytes=_COMMAND_OUTPUT_BYTES,
            )
        except ProgramError as error:
            raise ClientError(f"{where}: {error}") from error
        if ended.timed_out:
            raise ClientError(f"{where}: did not end within {timeout_s:g} s (stage_timeouts)")
        if ended.stopped is not None:
            raise ClientError(f"{where}: ended at its limit of {ended.stopped} (sandbox)")
        if ended.output_truncated:
            raise ClientError(f"{where}: wrote more than {_COMMAND_OUTPUT_BYTES} bytes")
        if ended.exit_code != 0:
            words = last_words(ended.stderr or ended.stdout)
            raise ClientError(f"{where}: ended with exit code {ended.exit_code}{f': {words}' if words else ''}")


def export_and_diff(
    workspace: Path, into: Path, *, limits: TrialLimits, baseline: Baseline, redactor: Redactor, timeout_s: float
) -> tuple[Export, str]:
    """Copy what was left, and what changed as a patch. Blocks.

    Raises:
        ClientError: see `export`.
    """
    left = export(workspace, into, limits=limits, baseline=baseline, redactor=redactor, timeout_s=timeout_s)
    try:
        return left, make_patch(baseline, left)
    except OSError as error:
        raise ClientError(f"the diff failed: {error.strerror}") from error


def _overlaid(fixture: Sequence[FileRef], overlay: Sequence[FileRef]) -> list[FileRef]:
    """One file a path; the overlay wins."""
    return list({file.path: file for file in [*fixture, *overlay]}.values())
