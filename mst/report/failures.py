"""Why trials failed: failures grouped by what failed them, and apart from them what broke before it could be judged."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import Literal

from mst.model.results import CaseResult, TrialResult
from mst.report.text import case_label, one_line, variant_label
from mst.report.view import outcome

MAX_EXCERPTS = 4
MAX_GROUPS = 500
"""Groups that are kept; further ones are counted together."""

GroupKind = Literal["failed", "apart"]


@dataclass(frozen=True, slots=True)
class Excerpt:
    """One trial of a group, with what its grader or its error said."""

    variant: str
    case_id: str
    trial: int
    text: str


@dataclass(slots=True)
class Group:
    """Trials with one reason. A trial that failed several graders is in several groups."""

    kind: GroupKind
    title: str
    by_variant: Counter[str] = field(default_factory=Counter)
    excerpts: list[Excerpt] = field(default_factory=list)

    @property
    def total(self) -> int:
        """Trials in this group, over all variants."""
        return self.by_variant.total()


class Failures:
    """Collects reasons while results stream by; keeps a bounded number of groups and excerpts."""

    def __init__(self) -> None:
        self._groups: dict[tuple[GroupKind, str], Group] = {}

    def add(self, case: CaseResult, trial: TrialResult) -> None:
        """Count a trial under each of its reasons; trials that passed have none."""
        kind: GroupKind = "failed" if outcome(trial) == "failed" else "apart"
        for title, text in _reasons(trial):
            said = one_line(text, limit=240)
            excerpt = Excerpt(variant_label(case.variant), case_label(case.id), trial.trial, said)
            self._count(kind, title, excerpt)

    def groups(self, kind: GroupKind) -> list[Group]:
        """The groups of a kind, largest first."""
        found = [group for group in self._groups.values() if group.kind == kind]
        return sorted(found, key=lambda group: (-group.total, group.title))

    def _count(self, kind: GroupKind, title: str, excerpt: Excerpt) -> None:
        key = (kind, title)
        if key not in self._groups and len(self._groups) >= MAX_GROUPS:
            key = (kind, "other reasons")
        group = self._groups.setdefault(key, Group(kind, key[1]))
        group.by_variant[excerpt.variant] += 1
        if len(group.excerpts) < MAX_EXCERPTS:
            group.excerpts.append(excerpt)


def _reasons(trial: TrialResult) -> list[tuple[str, str]]:
    state = outcome(trial)
    if state == "missing":
        return [("missing: nothing came back", trial.error or "no record of this trial")]
    if state == "infrastructure":
        kind = f" ({trial.error_kind})" if trial.error_kind else ""
        return [(f"infrastructure failure{kind}", trial.error or "no message")]
    if state == "grading error":
        grader, _, message = (trial.grading_error or "").partition(": ")
        return [(f"grading error: {one_line(grader, limit=80)}", message or "no message")]
    if state == "ungraded":
        return [("ungraded: no grader that counts looked at it", trial.error or "no graded finding")]
    return _findings(trial) if state == "failed" else []


def _findings(trial: TrialResult) -> list[tuple[str, str]]:
    """The graders that failed a trial; each graded check of its own scorer by name."""
    found: list[tuple[str, str]] = []
    for name, score in trial.scores.items():
        if not score.counts or score.passed:
            continue
        said = score.reasoning or score.details
        checks = [check for check in score.checks or [] if check.graded and not check.passed]
        titles = [(f"{name}: {check.name}", check.detail or said) for check in checks] or [(name, said)]
        found.extend((one_line(title, limit=120), text) for title, text in titles)
    if trial.limit_hit:
        found.append((f"limit reached: {trial.limit_hit}", trial.error or "what it left was graded"))
    return found or [("failed without a finding", trial.error or "no message")]
