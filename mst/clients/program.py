"""What clients that start programs share: their files, their environment, and what is wrong before the start."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from pathlib import Path, PurePosixPath
from typing import Any

from mst.clients.contract import TrialContext
from mst.clients.options import Environment, ListedFiles, SecretRef, fill_environment, listed_files
from mst.config.files import place
from mst.errors import ClientError, InfrastructureError
from mst.model.base import FileRef
from mst.model.case import Variant
from mst.process.child import ChildResult
from mst.process.environment import clean_environment, make_home, program_fault, search_path

_TAIL_BYTES = 16 * 1024


async def place_listed(files: ListedFiles, context: TrialContext) -> Path:
    """Put the listed files into a private folder of this trial and return it; it exists only if there are any.

    Raises:
        ClientError: `environment`: a file is missing or changed; `harness`: the config was not resolved.
    """
    folder = context.scratch / "files"
    refs = listed_files(files)
    if refs:
        try:
            await asyncio.to_thread(place, refs, context.files, folder)
        except (InfrastructureError, OSError) as error:
            raise ClientError(f"files of the client: {error}") from error
    return folder


def trial_environment(declared: Environment, context: TrialContext) -> dict[str, str]:
    """The whole environment of a trial's programs, with a home folder that is made for it."""
    home = make_home(context.scratch / "home")
    return clean_environment(home, fill_environment(declared, context.secrets))


def resolve_listed(argv: Sequence[str], files: ListedFiles, folder: Path) -> list[str]:
    """Arguments that are the path of a listed file become its path in the private folder; others stay."""
    paths = set(listed_paths(files))
    return [str(folder / _plain(argument)) if _plain(argument) in paths else argument for argument in argv]


def listed_paths(files: ListedFiles) -> list[str]:
    """Relative paths of listed files, whether resolved or not."""
    return [file.path if isinstance(file, FileRef) else _plain(file) for file in files]


def program_faults(programs: Iterable[str], files: ListedFiles, declared: Environment) -> list[str]:
    """Faults of programs that can be found before any trial: not installed, not executable. In order, each once."""
    path = declared.get("PATH")
    where = search_path() if path is None or isinstance(path, SecretRef) else str(path)
    paths = set(listed_paths(files))
    faults = []
    for program in dict.fromkeys(programs):
        if "{{" in program or _plain(program) in paths:
            continue
        fault = program_fault(program, where)
        if fault is not None:
            faults.append(fault)
    return faults


def sandbox_faults(variant: Variant) -> list[str]:
    """A sandbox that this version can't provide is refused: nothing runs less isolated than it was asked to."""
    kind = variant.sandbox.get("kind", "none")
    return [] if kind == "none" else [f"sandbox {kind!r} is not available in this version; use `kind: none`"]


def diagnostics_of(child: ChildResult) -> dict[str, Any]:
    """What helps to understand a program's end: the end of its error output, and what it left running."""
    found: dict[str, Any] = {}
    if child.stderr:
        found["stderr"] = child.stderr[-_TAIL_BYTES:].decode(errors="replace")
    if child.leftovers:
        found["leftProcesses"] = list(child.leftovers)
    return found


def _plain(path: str) -> str:
    return str(PurePosixPath(path))
