"""`diff_limits` and `within_limits`: how much a trial changed and how much it used."""

from __future__ import annotations

import fnmatch
from collections.abc import Callable, Iterator
from typing import Any, ClassVar, Literal

from pydantic import Field, model_validator

from mst.errors import GraderError
from mst.grade.assertions.base import Assertion, verdict
from mst.judges.contract import Subject
from mst.judges.diffs import FileChange, changes_of
from mst.judges.options import Options
from mst.model.score import GraderScore

MAX_NAMED = 5
Count = Field(default=None, ge=0)


class DiffOptions(Options):
    """Options of `diff_limits`."""

    main: ClassVar[str] = "max_lines"

    max_lines: int | None = Count
    """Lines added and removed together; a binary file counts as one."""
    max_files: int | None = Count
    max_added: int | None = Count
    max_removed: int | None = Count
    only: list[str] = []
    """Patterns; every changed file must match one. `*` crosses folders."""
    never: list[str] = []
    """Patterns; no changed file may match one."""

    @model_validator(mode="after")
    def _limits_something(self) -> DiffOptions:
        if not self.model_fields_set:
            raise ValueError("give at least one of max_lines, max_files, max_added, max_removed, only, never")
        return self


class WithinOptions(Options):
    """Options of `within_limits`."""

    duration_s: float | None = Field(default=None, gt=0)
    cost_usd: float | None = Field(default=None, ge=0)
    """What the program said that it cost, or else the estimate by the config's prices."""
    turns: int | None = Count
    tokens: int | None = Count
    """In and out."""
    output_tokens: int | None = Count
    tool_calls: int | None = Count
    """Only from a transcript with `structured` evidence."""
    unknown: Literal["error", "fail", "skip"] = "error"
    """What it is when the program did not say how much it used. Unknown is never taken for zero."""

    @model_validator(mode="after")
    def _limits_something(self) -> WithinOptions:
        if not self.model_fields_set - {"unknown"}:
            raise ValueError(f"give at least one of {', '.join(MEASURES)}")
        return self


def diff_limits(subject: Subject, options: DiffOptions) -> GraderScore:
    """The trial's change stays within bounds.

    Raises:
        GraderError: it has no diff.
    """
    if subject.record.diff is None:
        raise GraderError("diff_limits: the trial has no diff: it had no workspace")
    changes = changes_of(subject.record.diff)
    added, removed = sum(change.added for change in changes), sum(change.removed for change in changes)
    lines = added + removed + sum(change.binary for change in changes)
    measured = {"max_lines": lines, "max_files": len(changes), "max_added": added, "max_removed": removed}
    faults = [
        f"{name.removeprefix('max_')}: {value}, at most {limit} allowed"
        for name, value in measured.items()
        if (limit := getattr(options, name)) is not None and value > limit
    ]
    faults += _path_faults(changes, options)
    score = verdict(faults, f"{len(changes)} files, {added} lines added, {removed} removed")
    return score.model_copy(update={"metrics": {"files": float(len(changes)), "lines": float(lines)}})


def _path_faults(changes: list[FileChange], options: DiffOptions) -> Iterator[str]:
    outside = [change.path for change in changes if options.only and not _matches(change.path, options.only)]
    barred = [change.path for change in changes if _matches(change.path, options.never)]
    for paths, what in ((outside, "changed outside of 'only'"), (barred, "must never change")):
        if paths:
            more = f" and {len(paths) - MAX_NAMED} more" if len(paths) > MAX_NAMED else ""
            yield f"{what}: {', '.join(paths[:MAX_NAMED])}{more}"


def _matches(path: str, patterns: list[str]) -> bool:
    return any(fnmatch.fnmatchcase(path, pattern) for pattern in patterns)


def _usage(field: str) -> Callable[[Subject], float | None]:
    def read(subject: Subject) -> float | None:
        transcript = subject.record.transcript
        usage = transcript.usage if transcript is not None else None
        return None if usage is None else getattr(usage, field)

    return read


def _tokens(subject: Subject) -> float | None:
    parts = [_usage(field)(subject) for field in ("input_tokens", "output_tokens")]
    return None if None in parts else sum(part for part in parts if part is not None)


def _tool_calls(subject: Subject) -> float | None:
    transcript = subject.record.transcript
    if transcript is None or subject.record.evidence != "structured":
        return None
    return sum(event.kind == "tool_call" for event in transcript.events)


MEASURES: dict[str, Callable[[Subject], float | None]] = {
    "duration_s": lambda subject: subject.record.duration_ms / 1000,
    "cost_usd": _usage("cost_usd"),
    "turns": _usage("turns"),
    "tokens": _tokens,
    "output_tokens": _usage("output_tokens"),
    "tool_calls": _tool_calls,
}


def within_limits(subject: Subject, options: WithinOptions) -> GraderScore:
    """The trial used no more than allowed.

    Raises:
        GraderError: something that is limited is not known, unless `unknown` says what that is.
    """
    limits: dict[str, Any] = {name: limit for name in MEASURES if (limit := getattr(options, name)) is not None}
    used = {name: MEASURES[name](subject) for name in limits}
    faults = [
        f"{name}: {value:g}, at most {limits[name]:g} allowed"
        for name, value in used.items()
        if value is not None and value > limits[name]
    ]
    unknown = [name for name, value in used.items() if value is None]
    if unknown and not faults:
        said = f"not known: {', '.join(unknown)}"
        if options.unknown == "error":
            raise GraderError(f"within_limits: {said}; the program did not say, see option 'unknown'")
        if options.unknown == "skip" and len(unknown) == len(used):
            return GraderScore(passed=False, skipped=True, details=said)
        faults = [said] if options.unknown == "fail" else []
    return verdict(faults, ", ".join(f"{name} {value:g}" for name, value in used.items() if value is not None))


LIMIT_ASSERTIONS: dict[str, Assertion] = {
    "diff_limits": Assertion(Options=DiffOptions, grade=diff_limits),
    "within_limits": Assertion(Options=WithinOptions, grade=within_limits),
}
