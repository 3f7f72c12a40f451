"""What a grading starts from: plan, cases and files - of today's config, or as the run stored them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from mst.config.cases import CaseFile
from mst.config.files import FileSource
from mst.config.moving import copy_whole
from mst.config.resolve import ResolvedEval, load_eval
from mst.errors import UsageError
from mst.model.base import FileRef
from mst.model.case import Case, DatasetRecord, EvalPlan
from mst.model.run import RunRecord
from mst.runs.folder import RunFolder

_GIVEN = ("input", "fixture", "setup", "image")
"""What of a case makes the question that a program answered."""


@dataclass(frozen=True, kw_only=True)
class GradeInputs:
    """Graders, cases and their files.

    Attributes:
        cases: of the run, in its order, with the contents of today's datasets.
        notes: what the user should know about where they came from.
    """

    plan: EvalPlan
    cases: CaseFile
    datasets: Sequence[DatasetRecord]
    files: FileSource
    notes: Sequence[str] = ()


def grade_inputs(run: RunRecord, source: RunFolder, config: Path | None, scratch: Path) -> GradeInputs:
    """Find what to grade with: the config given, else the recorded path if it is still there, else what was stored.

    Args:
        run: record of the run that collected.
        source: its folder.
        config: as given by the user.
        scratch: a folder for the resolved cases.

    Raises:
        UsageError: another eval's config, or the run's variants or cases no longer exist in it.
    """
    recorded = Path(run.config_path) if run.config_path is not None else None
    path = config or (recorded if recorded is not None and recorded.is_file() else None)
    if path is None:
        note = "the eval config is not where it was; grading with what the run stored"
        return replace(stored_inputs(run, source), notes=(note,))
    with load_eval(path) as resolved:
        stored = resolved.cases.found_in(source.cases_path) or source.cases()
        _refuse_other(run, resolved, stored)
        plan = _collected_as(run, resolved.plan)
        unchanged = stored.hash == resolved.cases.hash
        asked_otherwise: list[str] = []
        todays = _todays(stored, resolved.cases, asked_otherwise)
        cases = stored if unchanged else CaseFile.write(scratch / "cases.jsonl", todays)
        notes = []
        if resolved.plan.content_hash != run.content_hash:
            notes.append(f"{path}: changed since the run was collected; grading with it as it is now")
        if asked_otherwise:
            notes.append(
                f"{path}: {_shown(asked_otherwise)}: asked otherwise now than when the run was collected; "
                "the answers that are graded are to what was asked then"
            )
        return GradeInputs(plan=plan, cases=cases, datasets=resolved.datasets, files=resolved.files, notes=tuple(notes))


def stored_inputs(run: RunRecord, source: RunFolder) -> GradeInputs:
    """What the run that collected stored, whatever became of its config: enough to grade it as it was meant to be."""
    return GradeInputs(plan=run.plan, cases=source.cases(), datasets=run.datasets, files=source.files())


def _refuse_other(run: RunRecord, resolved: ResolvedEval, stored: CaseFile) -> None:
    if resolved.plan.name != run.eval_name:
        raise UsageError(f"{resolved.path}: this is the eval {resolved.plan.name!r}, the run is of {run.eval_name!r}")
    now = {variant.name for variant in resolved.plan.variants}
    gone = [variant.name for variant in run.variants if variant.name not in now]
    if gone:
        raise UsageError(f"{resolved.path}: the run's variants {', '.join(gone)} no longer exist in this config")
    missing = [case_id for case_id in stored.ids if case_id not in resolved.cases]
    if missing:
        raise UsageError(f"{resolved.path}: no dataset has the run's cases {_shown(missing)} any more")


def _collected_as(run: RunRecord, plan: EvalPlan) -> EvalPlan:
    """Today's graders over the variants and the number of trials that were collected."""
    names = [variant.name for variant in run.variants]
    variants = [plan.variant(name) for name in names]
    baseline = plan.baseline if plan.baseline in names else run.baseline
    return plan.model_copy(
        update={
            "variants": variants,
            "trials": run.plan.trials,
            "trials_override": run.plan.trials_override,
            "baseline": baseline,
        }
    )


def _shown(case_ids: Sequence[str]) -> str:
    return ", ".join(case_ids[:5]) + (f" and {len(case_ids) - 5} more" if len(case_ids) > 5 else "")


def _todays(stored: CaseFile, today: CaseFile, asked_otherwise: list[str]) -> Iterator[Case]:
    """The run's cases as they are now; the IDs of those in which a program is given something else are noted."""
    for case in stored:
        now = today.get(case.id)
        if any(getattr(case, field) != getattr(now, field) for field in _GIVEN):
            asked_otherwise.append(case.id)
        yield now.model_copy(update={"trials": case.trials})


def write_inputs(folder: RunFolder, inputs: GradeInputs) -> CaseFile:
    """Store cases and every file that grading them again needs, so that the run stands without its config."""
    target = folder.inputs / "files"
    target.mkdir(parents=True, exist_ok=True)
    for file in _grading_files(inputs.plan, inputs.cases.equipped()):
        path = target / file.sha256
        if not path.exists():
            copy_whole(inputs.files.locate(file.sha256), path)
    return inputs.cases.copy(folder.inputs / "cases.jsonl")


def _grading_files(plan: EvalPlan, cases: Iterable[Case]) -> Iterator[FileRef]:
    for spec in (*plan.assertions, *plan.pairwise_judges):
        yield from spec.files
    for variant in plan.variants:
        for spec in variant.judges:
            yield from spec.files
    for case in cases:
        if case.checks is not None:
            yield case.checks
        for spec in (*case.assertions, *case.judges):
            yield from spec.files
