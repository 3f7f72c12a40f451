"""Why trials failed: failures grouped by what failed them, and apart from them what broke before it could be judged."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Literal

from mst.model.results import CaseResult, TrialResult
from mst.report.text import case_label, one_line, variant_label
from mst.report.view import outcome, trial_results

MAX_EXCERPTS = 4
MAX_GROUPS = 500
"""Groups that are kept; further ones are counted together."""

GroupKind = Literal["failed", "apart"]
What = Literal["missing", "infrastructure", "incomplete", "grading error", "ungraded", "check", "judge", "assertion",
               "limit", "program", "unexplained"]  # fmt: skip
"""What a reason is about: what never came back or broke, who gave no verdict, who failed it, what ended the program."""

ENDS = frozenset({"limit", "program"})
"""How a program ended, which graders only see in what it left: of as many trials it comes before what they say."""


@dataclass(frozen=True, slots=True)
class Reason:
    """Why a trial did not pass.

    Attributes:
        what: the kind of reason.
        text: what the grader or the error said.
        who: the grader; a check as `<grader>: <check>`.
        fault: the error's kind, the grading fault, or the limit.
        stage: of the trial that failed, when that is known.
    """

    what: What
    text: str
    who: str = ""
    fault: str = ""
    stage: str = ""

    @property
    def title(self) -> str:
        """The reason as a heading, for trials with the same one."""
        if self.what in {"check", "judge", "assertion"}:
            return one_line(self.who, limit=120)
        if self.what == "infrastructure":
            known = ", ".join(word for word in (self.fault, f"in {self.stage}" if self.stage else "") if word)
            return f"infrastructure failure ({known})" if known else "infrastructure failure"
        return {
            "missing": "missing: nothing came back",
            "incomplete": "incomplete: there is nothing to score",
            "grading error": f"grading error: {one_line(self.who, limit=80)}",
            "ungraded": "ungraded: no grader that counts looked at it",
            "limit": f"limit reached: {self.fault}",
            "program": "the program ended with an error",
            "unexplained": "failed without a finding",
        }[self.what]


@dataclass(frozen=True, slots=True)
class Excerpt:
    """One trial of a group, with what its grader or its error said."""

    variant: str
    case_id: str
    trial: int
    text: str


@dataclass(slots=True)
class Group:
    """Trials with one reason. A trial that failed several graders is in several groups.

    Attributes:
        is_end: see `ENDS`.
    """

    kind: GroupKind
    title: str
    is_end: bool = False
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
        for reason in reasons(trial):
            said = one_line(reason.text, limit=240)
            excerpt = Excerpt(variant_label(case.variant), case_label(case.id), trial.trial, said)
            self._count(kind, reason, excerpt)

    def groups(self, kind: GroupKind) -> list[Group]:
        """The groups of a kind, largest first; of those as large, how the program ended before who saw its answer."""
        found = [group for group in self._groups.values() if group.kind == kind]
        return sorted(found, key=lambda group: (-group.total, not group.is_end, group.title))

    def _count(self, kind: GroupKind, reason: Reason, excerpt: Excerpt) -> None:
        key = (kind, reason.title)
        if key not in self._groups and len(self._groups) >= MAX_GROUPS:
            key = (kind, "other reasons")
        group = self._groups.setdefault(key, Group(kind, key[1], is_end=reason.what in ENDS))
        group.by_variant[excerpt.variant] += 1
        if len(group.excerpts) < MAX_EXCERPTS:
            group.excerpts.append(excerpt)


def first_apart(cases: Iterable[CaseResult]) -> Excerpt | None:
    """The first trial that broke down or got no verdict, with what its error said. Reads no further than to it."""
    for case in cases:
        for trial in trial_results(case):
            if outcome(trial) in {"infrastructure", "grading error"}:
                said = one_line(reasons(trial)[0].text, limit=400)
                return Excerpt(variant_label(case.variant), case_label(case.id), trial.trial, said)
    return None


def reasons(trial: TrialResult) -> list[Reason]:
    """Why a trial did not pass: every grader without a verdict, or every finding against it; empty when it passed."""
    state = outcome(trial)
    if state == "missing":
        return [Reason("missing", trial.error or "no record of this trial")]
    if state == "infrastructure":
        stage = str((trial.client_diagnostics or {}).get("failedStage") or "")
        return [Reason("infrastructure", trial.error or "no message", fault=trial.error_kind or "", stage=stage)]
    if state == "incomplete":
        return [Reason("incomplete", trial.error or "no message")]
    if state == "grading error":
        return _owed(trial)
    if state == "ungraded":
        return [Reason("ungraded", trial.error or "no graded finding")]
    return _findings(trial) if state == "failed" else []


def _owed(trial: TrialResult) -> list[Reason]:
    """The graders that gave no verdict."""
    found = [
        Reason("grading error", score.error, who=name, fault=score.error_kind or "grader")
        for name, score in trial.scores.items()
        if score.error is not None
    ]
    grader, _, message = (trial.grading_error or "").partition(": ")
    return found or [Reason("grading error", message or "no message", who=grader, fault="grader")]


def _findings(trial: TrialResult) -> list[Reason]:
    """The graders that failed a trial, each graded check of its own scorer by name; what ended its program."""
    found: list[Reason] = []
    for name, score in trial.scores.items():
        if not score.counts or score.passed:
            continue
        said = score.reasoning or score.details
        checks = [check for check in score.checks or [] if check.graded and not check.passed]
        what: What = "check" if checks else "judge" if name.startswith("judge.") else "assertion"
        found += [Reason(what, check.detail or said, who=f"{name}: {check.name}") for check in checks] or [
            Reason(what, said, who=name)
        ]
    if trial.limit_hit:
        found.append(Reason("limit", trial.error or "what it left was graded", fault=trial.limit_hit))
    if trial.error_kind == "agent":
        found.append(Reason("program", trial.error or "it ended with an error", fault="agent"))
    return found or [Reason("unexplained", trial.error or "no message")]
