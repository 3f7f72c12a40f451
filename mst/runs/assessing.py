"""Which of a run's trials and pairs a judge is tried on, and trying it."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass

from mst.config.cases import CaseFile
from mst.errors import UsageError
from mst.grade.assess import Assessment, Assessor
from mst.grade.contract import Grader, Pair
from mst.grade.names import graders_for, pairwise_for
from mst.judges.contract import Subject
from mst.model.case import Case, EvalPlan
from mst.model.keys import RunId, TrialKey
from mst.model.printed.base import Printed
from mst.runs.calibrate import Calibration
from mst.runs.folder import RunFolder


@dataclass(frozen=True, kw_only=True)
class Wanted:
    """What `mst judges assess` asks.

    Attributes:
        judges: names, with or without `judge.` and `pairwise.`; all unless given.
        sample: trials, and pairs, that each judge is tried on.
        times: how often the same is asked for `stability`.
    """

    stability: bool
    bias: bool
    judges: Sequence[str] = ()
    sample: int = 20
    times: int = 3
    seed: int = 0


def judges_of(plan: EvalPlan, cases: CaseFile, names: Sequence[str]) -> list[Grader]:
    """The judges and pairwise judges of an eval, each once by name.

    Raises:
        UsageError: a name is not among them.
    """
    found: dict[str, Grader] = {}
    for case in [Case(id="-", dataset="-"), *cases]:
        for variant in plan.variants:
            for grader in graders_for(plan, variant, case):
                if grader.role == "judge":
                    found.setdefault(grader.name, grader)
    for grader in pairwise_for(plan):
        found.setdefault(grader.name, grader)
    plain = {name.partition(".")[2]: name for name in found}
    unknown = [name for name in names if name not in found and name not in plain]
    if unknown:
        raise UsageError(f"--judge {unknown[0]}: no such judge; there are {', '.join(found) or 'none'}")
    wanted = {plain.get(name, name) for name in names} or set(found)
    return [grader for name, grader in found.items() if name in wanted]


def subjects_of(source: RunFolder, plan: EvalPlan, cases: CaseFile, wanted: Wanted) -> list[Subject]:
    """Trials with an answer, sampled by the seed, in a fixed order."""
    keys = [
        (case, TrialKey(variant=variant.name, case_id=case.id, trial=0)) for case in cases for variant in plan.variants
    ]
    random.Random(wanted.seed).shuffle(keys)  # noqa: S311 - a sample, no secret
    found: list[Subject] = []
    for case, key in keys:
        subject = source.subject(case, key) if len(found) < wanted.sample else None
        if subject is not None and subject.record.is_scorable and subject.text.strip():
            found.append(subject)
    return found


def pairs_of(source: RunFolder, plan: EvalPlan, cases: CaseFile, wanted: Wanted) -> list[Pair]:
    """Pairs of first trials, baseline and candidate, sampled by the seed."""
    keys = [(case, name) for case in cases for name in plan.candidates]
    random.Random(wanted.seed).shuffle(keys)  # noqa: S311 - a sample, no secret
    found: list[Pair] = []
    for case, name in keys:
        if len(found) >= wanted.sample:
            break
        sides = [
            source.subject(case, TrialKey(variant=variant, case_id=case.id, trial=0))
            for variant in (plan.baseline, name)
        ]
        if all(side is not None and side.record.is_scorable for side in sides):
            baseline, candidate = (side for side in sides if side is not None)
            found.append(Pair(case=case, candidate=name, baseline_trials=[baseline], candidate_trials=[candidate]))
    return found


def calls_of(judges: Sequence[Grader], subjects: int, pairs: int, wanted: Wanted) -> int:
    """About how many calls the assessment makes, repetitions of the judges included."""
    calls = 0
    for judge in judges:
        if judge.role == "judge":
            asked = subjects * (wanted.times * wanted.stability + 5 * wanted.bias)
        else:
            asked = pairs * wanted.times * wanted.stability + 3 * subjects * wanted.bias
        calls += asked * calls_a_question(judge)
    return calls


def calls_a_question(judge: Grader) -> int:
    """How many calls one trial, or one pair, costs: repetitions, and a pair in both orders."""
    orders = 2 if judge.role != "judge" and judge.spec.swap else 1
    return orders * judge.spec.reps


async def assess(
    assessor: Assessor, judges: Sequence[Grader], subjects: Sequence[Subject], pairs: Sequence[Pair], wanted: Wanted
) -> list[Assessment]:
    """Try every judge, one after another."""
    found: list[Assessment] = []
    for judge in judges:
        if judge.role == "judge":
            if wanted.stability:
                found.append(await assessor.stability(judge, subjects, wanted.times))
            if wanted.bias:
                found += await assessor.bias(judge, subjects)
            continue
        if wanted.stability:
            found.append(await assessor.pair_stability(judge, pairs, wanted.times))
        if wanted.bias:
            found += await assessor.pair_bias(judge, subjects)
    return found


class AssessmentDocument(Printed):
    """`mst judges assess`; null: not asked for."""

    run_id: RunId
    assessments: list[Assessment] | None
    calibration: list[Calibration] | None
