"""What comparing two runs, or two gradings of one, found: what `mst compare --json` prints."""

from __future__ import annotations

from typing import Literal

from mst.model.base import Model
from mst.model.keys import RunId
from mst.model.numbers import Rate
from mst.model.run import Phases
from mst.model.summary import VerdictRecord

Word = Literal["better", "worse", "no difference shown", "cannot tell"]
ChangeKind = Literal["eval", "dataset", "case", "grader", "variant", "setting", "selection", "machine"]


class ComparedRun(Model):
    """One of the two."""

    run_id: RunId
    eval_name: str
    created_at: str
    graded_from: RunId | None = None
    phases: Phases
    narrowed: bool
    mst_version: str


class Change(Model):
    """One thing that is not the same in both. An absent side has no such thing."""

    kind: ChangeKind
    name: str
    what: str | None = None
    before: str | None = None
    after: str | None = None


class MatchedCases(Model):
    """Which cases both have, by ID and content."""

    matched: int
    changed: list[str] = []
    """Same ID, other content: not compared, unless both are gradings of the same trials."""
    first_only: list[str] = []
    second_only: list[str] = []


class ComparedSide(Model):
    """A variant in one of the two, over the matched cases."""

    passed: int
    scored: int
    planned: int
    errored: int
    missing: int
    pass_rate: float | None = None
    pass_rate_interval: Rate | None = None


class TrialFlips(Model):
    """Trials that two gradings of them see differently."""

    trials: int
    """That both gradings cover."""
    up: int
    """Failed before, pass now."""
    down: int
    gained: int
    """Had no result before."""
    lost: int
    cases_up: list[str] = []
    cases_down: list[str] = []


class ComparedVariant(Model):
    """One variant in both. `verdict` for two runs, `flips` for two gradings of the same trials."""

    name: str
    first: ComparedSide
    second: ComparedSide
    verdict: VerdictRecord | None = None
    flips: TrialFlips | None = None


class DecisionChange(Model):
    """The verdict on a candidate inside each of the two."""

    candidate: str
    first_baseline: str
    second_baseline: str
    first: Word
    second: Word


class RunComparison(Model):
    """The second of two runs held against the first."""

    first: ComparedRun
    second: ComparedRun
    same_trials: bool
    """Both are gradings of the same trials: what differs is the graders' doing."""
    changes: list[Change] = []
    cases: MatchedCases
    variants: list[ComparedVariant]
    variants_first_only: list[str] = []
    variants_second_only: list[str] = []
    decisions: list[DecisionChange] = []
