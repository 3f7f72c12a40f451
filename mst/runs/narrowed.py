"""A grading of some cases only: those that owe a verdict, those that did not pass, those named."""

from __future__ import annotations

import dataclasses
import fnmatch
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from mst.config.cases import CaseFile
from mst.errors import UsageError
from mst.grade.names import graders_for, pairwise_for
from mst.model.case import Case, EvalPlan
from mst.model.keys import ComparisonKey
from mst.model.run import Selection
from mst.model.score import TrialGrading
from mst.runs.earlier import EarlierGradings
from mst.runs.folder import RunFolder
from mst.runs.inputs import GradeInputs

FORMS = "errors, failed, case=ID or tag=TAG"


@dataclass(frozen=True)
class Only:
    """What `--only` says. Words of one kind add up; kinds narrow each other.

    Attributes:
        states: `errors` (a grader owes a verdict), `failed` (a trial did not pass).
        cases, tags: with `*` for any characters.
    """

    states: frozenset[str] = frozenset()
    cases: tuple[str, ...] = ()
    tags: tuple[str, ...] = ()


def read_only(words: Sequence[str]) -> Only:
    """Read the words of `--only`.

    Raises:
        UsageError: one is not known.
    """
    states, cases, tags = set(), [], []
    for word in words:
        kind, equals, value = word.partition("=")
        if word in {"errors", "failed"}:
            states.add(word)
        elif kind == "case" and value:
            cases.append(value)
        elif kind == "tag" and value:
            tags.append(value)
        else:
            raise UsageError(
                f"--only {word}: not known; write {FORMS}" + ("" if value or not equals else " with a value")
            )
    return Only(frozenset(states), tuple(cases), tuple(tags))


def chosen(folder: RunFolder, only: Only) -> list[str]:
    """The cases of a grading that are meant, in their order.

    Args:
        folder: the grading that is looked at: a run or a regrade.
        only: what is meant.

    Raises:
        UsageError: none is; a named case does not exist.
    """
    cases = folder.cases()
    for pattern in only.cases:
        if not any(fnmatch.fnmatchcase(case_id, pattern) for case_id in cases.ids):
            raise UsageError(f"--only case={pattern}: {folder.run_id} has no such case")
    plan, gradings = folder.run().plan, EarlierGradings(folder)
    found = [case.id for case in cases if _named(case, only) and _in_state(folder, plan, gradings, case, only)]
    if not found:
        raise UsageError(f"{folder.run_id}: no case is left by --only {' '.join(_words(only))}; nothing to grade")
    return found


def narrow(inputs: GradeInputs, case_ids: Sequence[str], scratch: Path) -> GradeInputs:
    """The same graders over some of the cases, in the order of the inputs."""
    wanted = set(case_ids)
    cases = CaseFile.write(scratch / "narrowed.jsonl", (case for case in inputs.cases if case.id in wanted))
    return dataclasses.replace(inputs, cases=cases)


def selection_of(only: Only, case_ids: Sequence[str], before: Selection | None) -> Selection:
    """How the regrade is narrowed, for its record: it never becomes the latest."""
    return (before or Selection()).model_copy(update={"only": _words(only), "cases": list(case_ids)})


def _words(only: Only) -> list[str]:
    return [*sorted(only.states), *(f"case={one}" for one in only.cases), *(f"tag={one}" for one in only.tags)]


def _named(case: Case, only: Only) -> bool:
    by_case = not only.cases or any(fnmatch.fnmatchcase(case.id, pattern) for pattern in only.cases)
    by_tag = not only.tags or any(fnmatch.fnmatchcase(tag, pattern) for tag in case.tags for pattern in only.tags)
    return by_case and by_tag


def _in_state(folder: RunFolder, plan: EvalPlan, gradings: EarlierGradings, case: Case, only: Only) -> bool:
    if not only.states:
        return True
    if "errors" in only.states and _compared_with_error(plan, gradings, case):
        return True
    for grading, graders in _trials(folder, plan, gradings, case):
        owed = grading is None or len(grading.scores) < graders or bool(grading.errors)
        if ("errors" in only.states and owed) or (
            "failed" in only.states and grading is not None and grading.passed is False
        ):
            return True
    return False


def _trials(
    folder: RunFolder, plan: EvalPlan, gradings: EarlierGradings, case: Case
) -> Iterator[tuple[TrialGrading | None, int]]:
    """Gradings of a case's trials that can be graded, with the number of graders that they should have."""
    for variant in plan.variants:
        graders = graders_for(plan, variant, case)
        for key in plan.trial_keys(case, [variant.name]):
            record = folder.source.trial(key)
            if record is not None and record.is_scorable and graders:
                yield gradings.trial(key, graders), len(graders)


def _compared_with_error(plan: EvalPlan, gradings: EarlierGradings, case: Case) -> bool:
    judges = pairwise_for(plan)
    for variant in plan.variants:
        if variant.name == plan.baseline or not judges:
            continue
        found = gradings.comparison(ComparisonKey(candidate=variant.name, case_id=case.id), judges)
        if found is not None and found.errors:
            return True
    return False
