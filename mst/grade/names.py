"""Which graders apply to a trial or a comparison, in which order, and what they are called in results. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from mst.grade.contract import Grader, GraderRole
from mst.model.case import Case, EvalPlan, GraderSpec, Variant

CHECKS = "checks"
"""Name and type of a case's own scorer in results."""

_DEFAULTS = GraderSpec(type="")
_INHERITED = sorted(set(GraderSpec.model_fields) - {"type", "name", "given"})


def graders_for(plan: EvalPlan, variant: Variant, case: Case) -> list[Grader]:
    """The graders of one variant's trials on a case: the config's assertions, the case's, its checks, then judges.

    Judges are the variant's in their order (they have replaced the config's already), each under the case's settings
    when the case has one of the same name, then the case's own. Names are unique: an assertion has its own name or
    its type, a judge `judge.<name>`; one that is taken gets `.2`, `.3` and so on.
    """
    names = _Names([CHECKS] if case.checks is not None else [])
    graders = [
        Grader(name=names.claim(spec.name or spec.type), role="assertion", spec=spec)
        for spec in (*plan.assertions, *case.assertions)
    ]
    if case.checks is not None:
        graders.append(Grader(name=CHECKS, role="checks", spec=GraderSpec(type=CHECKS, files=[case.checks])))
    return graders + _named(names, "judge", merged_judges(variant.judges, case.judges, reps=case.judge_reps))


def pairwise_for(plan: EvalPlan) -> list[Grader]:
    """The pairwise judges of every comparison, called `pairwise.<name>`, in the config's order."""
    return _named(_Names([]), "pairwise", plan.pairwise_judges)


def judges_for(plan: EvalPlan, cases: Iterable[Case], variants: Iterable[str]) -> list[Grader]:
    """Every distinct judge of these cases, then every pairwise judge: who is preflighted before any is asked."""
    kinds = [plan.variant(name) for name in variants]
    found: dict[tuple[str, str], Grader] = {}
    for case in cases:
        for variant in kinds:
            for grader in graders_for(plan, variant, case):
                if grader.role == "judge":
                    found.setdefault((grader.name, grader.spec.to_json().decode()), grader)
    return [*found.values(), *pairwise_for(plan)]


def merged_judges(
    shared: Sequence[GraderSpec], own: Sequence[GraderSpec], *, reps: int | None = None
) -> list[GraderSpec]:
    """A variant's judges with a case's settings laid over those of the same name, then the case's other judges.

    Args:
        shared: the variant's.
        own: the case's.
        reps: the case's `judge_reps`, for every judge but those for which the case itself says how often.
    """
    cases = {judge_name(spec): spec for spec in own}
    known = {judge_name(spec) for spec in shared}
    specs = [merged(spec, cases.get(judge_name(spec))) for spec in shared]
    specs += [spec for spec in own if judge_name(spec) not in known]
    if reps is None:
        return specs
    kept = {name for name, spec in cases.items() if "reps" in given_fields(spec)}
    return [spec if judge_name(spec) in kept else spec.model_copy(update={"reps": reps}) for spec in specs]


def merged(shared: GraderSpec, own: GraderSpec | None) -> GraderSpec:
    """A judge with a case's settings: what the case gives wins, options key by key, the rest is inherited.

    A case's judge of the same name but another type is another judge and inherits nothing.
    """
    if own is None or own.type != shared.type:
        return own or shared
    update: dict[str, Any] = {name: getattr(own, name) for name in given_fields(own)}
    if "options" in update:
        update["options"] = {**shared.options, **own.options}
    return shared.model_copy(update={**update, "given": None})


def given_fields(spec: GraderSpec) -> list[str]:
    """The fields that a spec sets itself."""
    if spec.given is not None:
        return [name for name in _INHERITED if name in spec.given]
    return [name for name in _INHERITED if getattr(spec, name) != getattr(_DEFAULTS, name)]


def judge_name(spec: GraderSpec) -> str:
    """What makes two judges the same one: the name, or the type of one without a name."""
    return spec.name or spec.type


def _named(names: _Names, role: GraderRole, specs: Iterable[GraderSpec]) -> list[Grader]:
    return [Grader(name=names.claim(f"{role}.{judge_name(spec)}"), role=role, spec=spec) for spec in specs]


class _Names:
    """Hands out names, each once."""

    def __init__(self, taken: Iterable[str]) -> None:
        self._taken = set(taken)

    def claim(self, wanted: str) -> str:
        name, number = wanted, 1
        while name in self._taken:
            number += 1
            name = f"{wanted}.{number}"
        self._taken.add(name)
        return name
