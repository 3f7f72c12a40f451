"""A case's own scorer: `checks.py` with `check(ctx)`, in its own process on a private copy of the export."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any

from pydantic import ConfigDict, Field, ValidationError, model_validator

from mst.errors import GraderError
from mst.judges.contract import JudgeContext, Subject
from mst.judges.folder import call_folder
from mst.judges.python_call import MEMORY_BYTES, Called, PythonCall, call_python, context_fields
from mst.judges.verdict import Flag, Unit, first_fault
from mst.model.base import Model
from mst.model.case import GraderSpec
from mst.model.score import CheckResult, GraderScore

FUNCTION = "check"
Number = Annotated[float, Field(strict=True, ge=-1e100, le=1e100)]
"""A metric. Its square is summed over all trials and must stay finite."""
Name = Annotated[str, Field(min_length=1, max_length=200)]


class _Strict(Model):
    model_config = ConfigDict(extra="forbid")


class ReturnedCheck(_Strict):
    """One check as a scorer returns it."""

    name: Name
    passed: Flag
    graded: Flag = True
    detail: str | None = None


class Judgment(Model):
    """What a scorer keeps of a judge that it asked itself. Other keys are kept as they are."""

    model_config = ConfigDict(extra="allow")

    name: Name
    score: Unit | None = None
    passed: Flag | None = None
    reasoning: str | None = None


class Returned(_Strict):
    """What `check(ctx)` returns."""

    passed: Flag | None = None
    checks: list[ReturnedCheck]
    judgments: list[Judgment] = []
    metrics: dict[Name, Number | None] = {}

    @model_validator(mode="after")
    def _names_once(self) -> Returned:
        names = [check.name for check in self.checks]
        twice = sorted({name for name in names if names.count(name) > 1})
        if twice:
            raise ValueError(f"two checks are called {twice[0]!r}")
        return self


async def run_checks(
    subject: Subject, spec: GraderSpec, context: JudgeContext, *, memory_bytes: int = MEMORY_BYTES
) -> GraderScore:
    """Run the scorer on one trial. Its faults are a score with `error`, beside judgments that it had made by then.

    Passed when every graded check passed and `passed` is not false. Without a graded check and without `passed` it
    counts neither way. What it asked for and cannot have here makes it `deferred`, whatever it returned.

    Raises:
        GraderError: it could not be started.
        ObjectMissing, DigestMismatch: the scorer or an artifact is not to be had.
    """
    async with call_folder(context.scratch) as folder:
        workspace = await folder.place(subject.artifact_files, subject.artifacts, "workspace")
        fields = {
            **context_fields(subject, workspace),
            "variant": subject.record.variant,
            "trial": subject.record.trial,
        }
        call = PythonCall(
            target=f"{spec.files[0].path}:{FUNCTION}",
            files=spec.files,
            contexts=[fields],
            cwd=workspace,
            memory_bytes=memory_bytes,
        )
        called = await call_python(call, folder, context)
    return score_called(called)


def score_called(called: Called) -> GraderScore:
    """What a scorer's run means. Pure."""
    kept = valid_judgments(called.judgments)
    if called.missing:
        capabilities = ", ".join(called.missing)
        details = f"asked for {capabilities}: not available when stored results are graded"
        return GraderScore(passed=False, deferred=called.missing, details=details, judgments=kept or None)
    if called.error is not None:
        return GraderScore(passed=False, error=called.error, judgments=kept or None)
    try:
        returned = parse_returned(called.value)
    except GraderError as error:
        kept += valid_judgments(_judgments_in(called.value))
        return GraderScore(passed=False, error=str(error), judgments=kept or None)
    kept += [judgment.to_dict() for judgment in returned.judgments]
    return score_returned(returned, kept)


def parse_returned(value: Any) -> Returned:
    """Check what a scorer returned.

    Raises:
        GraderError: it is not what `check(ctx)` must return.
    """
    if not isinstance(value, dict):
        raise GraderError(f"check(ctx) must return a mapping with 'checks', not {type(value).__name__}")
    try:
        return Returned.model_validate(value)
    except ValidationError as error:
        raise GraderError(f"check(ctx) returned what is not usable: {first_fault(error)}") from error


def score_returned(returned: Returned, judgments: list[dict[str, Any]]) -> GraderScore:
    """The score of a valid return."""
    graded = [check for check in returned.checks if check.graded]
    failed = [check.name for check in graded if not check.passed]
    counts = bool(graded) or returned.passed is not None
    passed = counts and not failed and returned.passed is not False
    return GraderScore(
        passed=passed,
        details=_details(failed, len(graded), overruled=returned.passed is False),
        graded=None if counts else False,
        checks=[CheckResult(**check.model_dump()) for check in returned.checks],
        metrics=returned.metrics or None,
        judgments=judgments or None,
    )


def valid_judgments(judgments: Sequence[Any]) -> list[dict[str, Any]]:
    """Those judgments that are valid alone."""
    kept = []
    for judgment in judgments:
        try:
            kept.append(Judgment.model_validate(judgment).to_dict())
        except ValidationError:
            continue
    return kept


def _judgments_in(value: Any) -> list[Any]:
    found = value.get("judgments") if isinstance(value, dict) else None
    return found if isinstance(found, list) else []


def _details(failed: list[str], graded: int, *, overruled: bool) -> str:
    if failed:
        return f"failed: {', '.join(failed)}"
    if overruled:
        return "the scorer said that it did not pass"
    return f"{graded} graded check{'' if graded == 1 else 's'} passed"
