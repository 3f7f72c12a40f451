"""Adding to a run: more trials, cases or variants. What was collected stays; each time it was looked at before counts.

A test that is repeated until it likes the answer is wrong more often than it says. So an extension is written down as
one more look at the data, and everything but the additions must be what it was.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from mst.config.cases import CaseFile
from mst.config.variants import flatten
from mst.errors import UsageError
from mst.model.case import Case, DatasetRecord, EvalPlan, GraderSpec, Variant
from mst.model.run import Phases, RunRecord, Selection
from mst.runs.folder import RunFolder
from mst.runs.locate import regrades_of
from mst.runs.record import cases_identity, conceal_plan, grader_records, variant_record

_SHOWN = 5


def extended(
    folder: RunFolder,
    plan: EvalPlan,
    *,
    cases: CaseFile,
    datasets: Sequence[DatasetRecord],
    selection: Selection | None,
) -> RunRecord:
    """The run's record with today's trials, cases and variants in it. The same record when there is nothing to add.

    Raises:
        UsageError: something else changed; every fault is named.
    """
    run, stored = folder.run(), folder.cases()
    today = conceal_plan(plan, run.hmac_key)
    if faults := changes(folder, plan, cases):
        head = f"{run.run_id} cannot be extended: only trials, cases and variants may be added"
        raise UsageError("\n".join([head, *faults]))
    if not _adds(run.plan, stored, today, cases):
        return run
    graders = list(grader_records(plan, cases))
    phases = Phases(collect="partial", grade=run.phases.grade)
    if run.phases.grade == "complete":
        phases = Phases(collect="partial", grade="partial")
    return run.model_copy(
        update={
            "content_hash": plan.content_hash,
            "variants": [variant_record(variant, run.hmac_key) for variant in plan.variants],
            "datasets": list(datasets),
            "judges": [grader for grader in graders if not grader.level.endswith("assertion")],
            "graders": graders,
            "partial": _is_narrowed(run, selection),
            "selection": selection,
            "phases": phases,
            "plan": today,
            "cases_hash": cases_identity(cases),
            "looks": (run.looks or 0) + 1 if was_looked_at(folder) else run.looks,
            "finished_at": None,
        }
    )


def changes(folder: RunFolder, plan: EvalPlan, cases: CaseFile) -> list[str]:
    """What is not as it was when the run was started, additions apart, in words."""
    run = folder.run()
    today = conceal_plan(plan, run.hmac_key)
    return [*_plan_faults(run.plan, today), *_case_faults(run.plan, folder.cases(), today, cases)]


def was_looked_at(folder: RunFolder) -> bool:
    """Whether anybody could see a result of this data: a summary of the run, or of a regrade of it."""
    return any((found.path / "summary.json").is_file() for found in (folder, *regrades_of(folder)))


def _is_narrowed(run: RunRecord, selection: Selection | None) -> bool:
    """More trials than the config says leave nothing out; a run that was narrowed before may still be."""
    if selection is None:
        return False
    return run.partial or selection.model_copy(update={"trials": None}) != Selection()


def _plan_faults(before: EvalPlan, now: EvalPlan) -> Iterator[str]:
    if before.name != now.name:
        yield f"the eval was {before.name!r} and is {now.name!r}"
    if before.baseline != now.baseline:
        yield f"the baseline was {before.baseline!r} and is {now.baseline!r}"
    today = {variant.name: variant for variant in now.variants}
    for variant in before.variants:
        if variant.name not in today:
            yield f"variant {variant.name!r} is gone"
        else:
            yield from _variant_faults(variant, today[variant.name])
    for what, one, other in (
        ("assertions", before.assertions, now.assertions),
        ("pairwise_judges", before.pairwise_judges, now.pairwise_judges),
    ):
        if _identities(one) != _identities(other):
            yield f"{what} changed: grade the run again with 'mst grade' instead"
    if before.pass_threshold != now.pass_threshold:
        yield f"pass_threshold was {before.pass_threshold:g} and is {now.pass_threshold:g}"


def _variant_faults(before: Variant, now: Variant) -> Iterator[str]:
    if _identities(before.judges) != _identities(now.judges):
        yield f"judges of variant {before.name!r} changed: grade the run again with 'mst grade' instead"
    one, other = (flatten(variant.model_copy(update={"judges": []})) for variant in (before, now))
    for key in dict.fromkeys([*one, *other]):
        if one.get(key) != other.get(key):
            yield f"variant {before.name!r}: {key} changed"


def _case_faults(before: EvalPlan, stored: CaseFile, now: EvalPlan, cases: CaseFile) -> Iterator[str]:
    gone = [case_id for case_id in stored.ids if case_id not in cases]
    if gone:
        yield f"cases are gone: {_listed(gone)}"
    changed, fewer = [], []
    for case in stored:
        if case.id not in cases:
            continue
        today = cases.get(case.id)
        if _without_trials(case) != _without_trials(today):
            changed.append(case.id)
        elif now.trials_of(today) < before.trials_of(case):
            fewer.append(case.id)
    if changed:
        yield f"cases changed: {_listed(changed)}"
    if fewer:
        yield f"fewer trials than were made: {_listed(fewer)}"


def _adds(before: EvalPlan, stored: CaseFile, now: EvalPlan, cases: CaseFile) -> bool:
    if len(now.variants) > len(before.variants) or len(cases.ids) > len(stored.ids):
        return True
    return any(now.trials_of(cases.get(case.id)) > before.trials_of(case) for case in stored)


def _without_trials(case: Case) -> str:
    return case.model_copy(update={"trials": None}).digest


def _identities(specs: Sequence[GraderSpec]) -> list[tuple[str | None, str]]:
    return [(spec.name, spec.identity().hash) for spec in specs]


def _listed(names: Sequence[str]) -> str:
    more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
    return f"{', '.join(names[:_SHOWN])}{more}"


def merged_selection(before: Selection | None, asked: Selection | None) -> Selection | None:
    """How the extended run is narrowed: as before, and where the user says something else, as the user says."""
    said: Mapping[str, object] = {} if asked is None else asked.model_dump(exclude_none=True, by_alias=False)
    found = (before or Selection()).model_copy(update=dict(said))
    return found if found != Selection() else None
