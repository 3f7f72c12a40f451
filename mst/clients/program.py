"""What clients that start programs share: their files, their environment, and what is wrong before the start."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path, PurePosixPath
from typing import Any

from mst.clients.contract import TrialContext
from mst.clients.options import Environment, ListedFiles, SecretRef, fill_environment, listed_files
from mst.config.files import place
from mst.errors import ClientError, InfrastructureError
from mst.model.base import FileRef
from mst.model.case import TrialLimits, Variant
from mst.model.transcript import Usage
from mst.model.trial import LimitHit
from mst.process.child import ChildResult
from mst.process.finishing import in_thread
from mst.sandboxes.contract import Sandbox
from mst.sandboxes.open import open_sandbox

_TAIL_BYTES = 16 * 1024
_USED_LIMITS = frozenset({"turns", "tokens", "cost"})
_SANDBOX_LIMITS = {"memory": "memory", "disk": "disk space", "pids": "processes"}


async def place_listed(files: ListedFiles, context: TrialContext) -> Path:
    """Put the listed files into a private folder of this trial and return it; it exists only if there are any.

    Raises:
        ClientError: `environment`: a file is missing or changed; `harness`: the config was not resolved.
    """
    folder = context.scratch / "files"
    refs = listed_files(files)
    if refs:
        try:
            await in_thread(place, refs, context.files, folder)
        except (InfrastructureError, OSError) as error:
            raise ClientError(f"files of the client: {error}") from error
    return folder


def trial_environment(declared: Environment, context: TrialContext) -> dict[str, str]:
    """The whole environment of a trial's programs."""
    return context.enclosure.environment(fill_environment(declared, context.secrets))


def resolve_listed(argv: Sequence[str], files: ListedFiles, folder: Path) -> list[str]:
    """Arguments that are the path of a listed file become its path in `folder`, as seen inside; others stay."""
    paths = set(listed_paths(files))
    return [str(folder / _plain(argument)) if _plain(argument) in paths else argument for argument in argv]


def listed_paths(files: ListedFiles) -> list[str]:
    """Relative paths of listed files, whether resolved or not."""
    return [file.path if isinstance(file, FileRef) else _plain(file) for file in files]


def program_faults(
    programs: Iterable[str], files: ListedFiles, declared: Environment, sandbox: Sandbox, *, image: str | None = None
) -> list[str]:
    """Faults of programs that can be found before any trial: not installed, not executable, not visible in the sandbox.

    In order, each once.
    """
    where = declared_path(declared)
    paths = set(listed_paths(files))
    faults = []
    for program in dict.fromkeys(programs):
        if "{{" in program or _plain(program) in paths:
            continue
        fault = sandbox.program_fault(program, where, image=image)
        if fault is not None:
            faults.append(fault)
    return faults


def declared_path(declared: Environment) -> str | None:
    """The search path that an environment declares, or None."""
    path = declared.get("PATH")
    return None if path is None or isinstance(path, SecretRef) else str(path)


def sandbox_faults(variant: Variant) -> list[str]:
    """A sandbox that can't be had here is refused: nothing runs less isolated than it was asked to."""
    return sandbox_of(variant).faults()


def sandbox_of(variant: Variant) -> Sandbox:
    """The variant's sandbox.

    Raises:
        ConfigError: it is not well-formed.
    """
    return open_sandbox(variant.sandbox, f"variant {variant.name!r}")


def limit_hit_of(child: ChildResult, limits: TrialLimits) -> tuple[str, LimitHit] | None:
    """The limit that ended a program, in words and by name; None when it ended by itself."""
    if child.timed_out:
        return f"ended at its time limit of {limits.time_s:g} s", "timeout"
    if child.output_truncated:
        return f"ended at its output limit of {limits.output_bytes} bytes", "output"
    if child.stopped in _USED_LIMITS:
        return f"ended at its limit of {child.stopped} (trial_limits)", child.stopped  # type: ignore[return-value]  # of that set
    if child.stopped in _SANDBOX_LIMITS:
        return f"ended at its limit of {_SANDBOX_LIMITS[child.stopped]} (sandbox.{child.stopped})", child.stopped  # type: ignore[return-value]  # a key of that table
    return None


def diagnostics_of(child: ChildResult) -> dict[str, Any]:
    """What helps to understand a program's end: the end of its error output, and what it left running."""
    found: dict[str, Any] = {}
    if child.stderr:
        found["stderr"] = child.stderr[-_TAIL_BYTES:].decode(errors="replace")
    if child.leftovers:
        found["leftProcesses"] = list(child.leftovers)
    return found


def usage_limit_of(usage: Usage | None, limits: TrialLimits) -> tuple[str, LimitHit] | None:
    """The limit that a program's own account of what it used is over. What is not known is over no limit."""
    if usage is None:
        return None
    if limits.cost_usd is not None and (usage.cost_usd or 0) > limits.cost_usd:
        return f"used more than its limit of {limits.cost_usd:g} USD", "cost"
    if limits.tokens is not None and usage.known_tokens > limits.tokens:
        return f"used more than its limit of {limits.tokens} tokens", "tokens"
    if limits.turns is not None and (usage.turns or 0) > limits.turns:
        return f"used more than its limit of {limits.turns} turns", "turns"
    return None


def _plain(path: str) -> str:
    return str(PurePosixPath(path))
