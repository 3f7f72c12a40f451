"""What a summary is made of, gathered case by case: whole numbers and sums, so that memory stays flat."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

from mst.model.case import Case, EvalPlan
from mst.model.results import CaseResult
from mst.model.score import ComparisonGrading, GraderScore, Preference
from mst.model.summary import Counts
from mst.model.transcript import Evidence, Usage
from mst.providers.spending import known_usage
from mst.runs.grading import GradedCase, GradedTrial
from mst.runs.health import Health, slot_records
from mst.runs.metrics import Mean, MetricDifferences, case_means, trial_metrics
from mst.runs.outcome import Fate
from mst.stats.cases import CaseData, TrialCounts
from mst.stats.preferences import Slot

WEAKEST: tuple[Evidence, ...] = ("none", "observed", "structured")


@dataclass
class VariantTotals:
    """One variant over the cases seen so far."""

    name: str
    cases: int = 0
    cases_passed: int = 0
    cases_failed: int = 0
    fates: Counter[Fate] = field(default_factory=Counter)
    planned: int = 0
    passed: int = 0
    grading_errors: int = 0
    incomplete: int = 0
    duration_ms: float = 0.0
    means: dict[str, Mean] = field(default_factory=dict)
    client_usage: Usage | None = None
    judge_usage: Usage | None = None
    evidence: Evidence | None = None
    checks: dict[str, Counter[str]] = field(default_factory=dict)
    tool_calls: int = 0
    used: set[str] = field(default_factory=set)
    collected: int = 0
    broken_off: int = 0
    retried: int = 0
    superseded: int = 0

    def mean(self, name: str) -> Mean:
        """The mean of this name, made on first use."""
        return self.means.setdefault(name, Mean())

    def add_case(self, result: CaseResult) -> None:
        """Count one case."""
        self.cases += 1
        self.cases_passed += result.passed is True
        self.cases_failed += result.passed is False
        self.duration_ms += result.duration_ms
        self.client_usage = known_usage([self.client_usage, result.client_usage])
        self.judge_usage = known_usage([self.judge_usage, result.judge_usage])

    def add_trial(self, trial: GradedTrial) -> None:
        """Count one planned trial."""
        record = trial.subject.record if trial.subject is not None else None
        self.planned += 1
        self.fates[trial.outcome.fate] += 1
        self.passed += trial.outcome.passed is True
        for name, value in trial_metrics(trial):
            self.mean(name).add(value)
        if record is None:
            return
        self.collected += not record.infrastructure_error
        self.broken_off += record.error_kind == "agent"
        self.incomplete += record.status == "incomplete"
        self.retried += record.attempts_before > 0
        self.superseded += record.attempts_before
        self._add_transcript(trial)
        if trial.grading is not None:
            self.grading_errors += bool(trial.grading.errors)
            for score in trial.grading.scores.values():
                self._add_checks(score)

    def _add_transcript(self, trial: GradedTrial) -> None:
        assert trial.subject is not None
        record = trial.subject.record
        if record.infrastructure_error:
            return
        events = record.transcript.events if record.transcript is not None else []
        calls = [event for event in events if event.kind == "tool_call"]
        self.tool_calls += len(calls)
        self.used.update(event.name for event in events if event.kind in ("tool_call", "skill"))
        self.used.update(event.server for event in calls if event.server)
        found = record.transcript_evidence or "none"
        if self.evidence is None or WEAKEST.index(found) < WEAKEST.index(self.evidence):
            self.evidence = found

    def _add_checks(self, score: GraderScore) -> None:
        if not score.is_verdict or score.skipped:
            return
        for check in score.checks or []:
            counts = self.checks.setdefault(check.name, Counter())
            counts["passed"] += check.passed
            counts["total"] += 1

    def counts(self) -> Counts:
        """The honest denominator."""
        return Counts(
            planned=self.planned,
            scored=self.fates[Fate.SCORED],
            errored=self.fates[Fate.ERRORED],
            missing=self.fates[Fate.MISSING],
            ungraded=self.fates[Fate.UNGRADED],
            grading_errors=self.grading_errors,
            incomplete=self.incomplete or None,
            retried=self.retried or None,
            superseded=self.superseded or None,
        )


@dataclass
class PairwiseTotals:
    """One pairwise judge on one candidate."""

    candidate_wins: int = 0
    baseline_wins: int = 0
    ties: int = 0
    skipped: int = 0
    errors: int = 0
    consistent: int = 0
    both_orders: int = 0
    usage: Usage | None = None
    slots: Counter[tuple[Slot, Slot]] = field(default_factory=Counter)

    def add(self, found: Preference) -> None:
        """Count one case's preference."""
        self.usage = known_usage([self.usage, found.usage])
        self.slots.update(slot_records(found.pairs or []))
        if found.error is not None:
            self.errors += 1
        elif found.skipped:
            self.skipped += 1
        else:
            self.candidate_wins += found.preference == "candidate"
            self.baseline_wins += found.preference == "baseline"
            self.ties += found.preference == "tie"
        if found.consistent is not None:
            self.both_orders += 1
            self.consistent += found.consistent

    @property
    def compared(self) -> int:
        """Cases with a preference."""
        return self.candidate_wins + self.baseline_wins + self.ties


@dataclass(frozen=True, slots=True)
class CaseCounts:
    """One case in whole numbers, by variant."""

    case_id: str
    family: str | None
    held_out: bool
    regression: bool
    by_variant: dict[str, TrialCounts]

    @property
    def group(self) -> str:
        """The group that it is reported in: `held-out` before `regression`, else `capability`."""
        return "held-out" if self.held_out else "regression" if self.regression else "capability"


class Totals:
    """Everything that the summary needs, gathered in one pass over a run's cases."""

    def __init__(self, plan: EvalPlan, variants: Sequence[str]) -> None:
        self.plan = plan
        self.variants = {name: VariantTotals(name) for name in variants}
        self.pairwise: dict[tuple[str, str], PairwiseTotals] = {}
        self.cases: list[CaseCounts] = []
        self.grader_errors: Counter[str] = Counter()
        self.health = Health(plan)
        self.differences = {name: MetricDifferences() for name in variants if name != plan.baseline}
        self.group_cases: dict[tuple[str, str], Counter[bool | None]] = {}

    def add(self, graded: GradedCase, results: Sequence[CaseResult]) -> None:
        """Count one case: its trials, its results by variant, its comparisons."""
        self.health.add(graded)
        for trial in graded.trials:
            self.variants[trial.key.variant].add_trial(trial)
            if trial.grading is not None:
                self.grader_errors.update(trial.grading.errors.keys())
        for result in results:
            self.variants[result.variant].add_case(result)
        for comparison in graded.comparisons:
            self._add_comparison(comparison)
        counts = _case_counts(graded.case, graded.trials)
        self.cases.append(counts)
        for result in results:
            self.group_cases.setdefault((result.variant, counts.group), Counter())[result.passed] += 1
        if not counts.held_out:
            self._add_differences(graded)

    def _add_differences(self, graded: GradedCase) -> None:
        if self.plan.baseline not in self.variants or not self.differences:
            return
        means = case_means(graded.trials)
        for name, found in self.differences.items():
            found.add(means.get(self.plan.baseline, {}), means.get(name, {}), graded.case.family)

    def _add_comparison(self, comparison: ComparisonGrading) -> None:
        self.grader_errors.update(comparison.errors.keys())
        for judge, found in comparison.preferences.items():
            self.pairwise.setdefault((comparison.key.candidate, judge), PairwiseTotals()).add(found)

    def case_data(self, candidate: str) -> list[CaseData]:
        """A candidate beside the baseline, case by case."""
        absent = TrialCounts(passed=0, scored=0, planned=0)
        return [
            CaseData(
                case_id=case.case_id,
                baseline=case.by_variant.get(self.plan.baseline, absent),
                candidate=case.by_variant.get(candidate, absent),
                family=case.family,
                held_out=case.held_out,
                regression=case.regression,
            )
            for case in self.cases
        ]

    @property
    def has_grading_gaps(self) -> bool:
        """Whether some grader owes a verdict."""
        return bool(self.grader_errors)

    @property
    def has_collect_gaps(self) -> bool:
        """Whether some planned trial is missing or broke down."""
        return any(totals.collected < totals.planned for totals in self.variants.values())


def _case_counts(case: Case, trials: Sequence[GradedTrial]) -> CaseCounts:
    fates: dict[str, Counter[str]] = {}
    for trial in trials:
        counts = fates.setdefault(trial.key.variant, Counter())
        counts[trial.outcome.fate] += 1
        counts["passed"] += trial.outcome.passed is True
    return CaseCounts(
        case_id=case.id,
        family=case.family,
        held_out="held-out" in case.tags,
        regression="regression" in case.tags,
        by_variant={
            # an ungraded trial owes nobody a verdict: it is neither planned evidence nor missing
            name: TrialCounts(
                passed=counts["passed"],
                scored=counts[Fate.SCORED],
                planned=counts[Fate.SCORED] + counts[Fate.ERRORED] + counts[Fate.MISSING],
                errored=counts[Fate.ERRORED],
            )
            for name, counts in fates.items()
        },
    )
