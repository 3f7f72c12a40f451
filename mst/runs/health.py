"""Signs in a run's own verdicts that a grader cannot be trusted. They are signs, not proof; nothing is asked again."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from mst.model.case import EvalPlan
from mst.model.score import ComparisonGrading, GraderScore, PairCall, TrialGrading
from mst.model.summary import HealthFinding
from mst.runs.grading import GradedCase
from mst.stats.agreement import cohen_kappa
from mst.stats.preferences import Slot, position_bias
from mst.stats.special import coin_two_sided_p

ENOUGH = 10
"""Verdicts below which nothing is said."""
OFTEN = 0.05
"""Share of calls without a verdict that is worth a word."""
UNSTEADY = 0.2
"""Share of repeated verdicts that spread too widely, or of pairs that change with the order, that is worth a word."""
LEVEL = 0.01
"""Of the tests here. Many graders are looked at, and a false alarm costs trust too."""
LONGER_SHARE = 0.75
LONGER_BY = 1.1
MAX_GRADERS = 100
STAND_INS = {"oracle": True, "noop": False}
"""Clients whose answers are known to be right, or to be none, and whether a grader should pass them."""


@dataclass
class _Grader:
    passed: int = 0
    failed: int = 0
    errors: int = 0
    repeated: int = 0
    spread: int = 0
    stand_in: Counter[str] = field(default_factory=Counter)
    contradicts: Counter[str] = field(default_factory=Counter)

    @property
    def judged(self) -> int:
        return self.passed + self.failed

    @property
    def asked(self) -> int:
        return self.judged + self.errors


@dataclass
class _Pairwise:
    records: Counter[tuple[Slot, Slot]] = field(default_factory=Counter)
    calls: int = 0
    errors: int = 0
    longer: int = 0
    shorter: int = 0


class Health:
    """Counts of verdicts by grader, taken case by case; memory depends on the graders, not on the cases."""

    def __init__(self, plan: EvalPlan) -> None:
        self._stand_ins = {variant.name: variant.client for variant in plan.variants if variant.client in STAND_INS}
        self._baseline = plan.baseline
        self._graders: dict[str, _Grader] = {}
        self._pairs: dict[tuple[str, str], Counter[tuple[bool, bool]]] = {}
        self._pairwise: dict[str, _Pairwise] = {}

    def add(self, graded: GradedCase) -> None:
        """Count one case."""
        change = graded.case.kind == "change"
        for trial in graded.trials:
            if trial.grading is not None:
                self._add_trial(trial.grading, self._stand_ins.get(trial.key.variant) if change else None)
        lengths = {
            (trial.key.variant, trial.key.trial): len(trial.subject.text)
            for trial in graded.trials
            if trial.subject is not None
        }
        for comparison in graded.comparisons:
            self._add_comparison(comparison, lengths)

    def _add_trial(self, grading: TrialGrading, stand_in: str | None) -> None:
        said: dict[str, bool] = {}
        for name, score in grading.scores.items():
            if name not in self._graders and len(self._graders) >= MAX_GRADERS:
                continue
            self._add_score(self._graders.setdefault(name, _Grader()), score, stand_in)
            if score.counts:
                said[name] = score.passed
        judges = {name: passed for name, passed in said.items() if name.startswith("judge.")}
        for name, passed in judges.items():
            for other, theirs in said.items():
                if other > name or (other != name and other not in judges):
                    self._pairs.setdefault((name, other), Counter())[passed, theirs] += 1

    @staticmethod
    def _add_score(found: _Grader, score: GraderScore, stand_in: str | None) -> None:
        found.errors += score.error is not None
        if score.scores is not None and len(score.scores) > 1:
            found.repeated += 1
            found.spread += bool(score.high_variance)
        if not score.counts:
            return
        found.passed += score.passed
        found.failed += not score.passed
        if stand_in is not None:
            found.stand_in[stand_in] += 1
            found.contradicts[stand_in] += score.passed is not STAND_INS[stand_in]

    def _add_comparison(self, comparison: ComparisonGrading, lengths: Mapping[tuple[str, int], int]) -> None:
        for name, preference in comparison.preferences.items():
            found = self._pairwise.setdefault(name, _Pairwise())
            calls = preference.pairs or []
            found.calls += len(calls)
            found.errors += sum(call.error is not None for call in calls)
            found.records.update(slot_records(calls))
            longer = _longer(calls, comparison.key.candidate, self._baseline, lengths)
            if preference.preference in ("candidate", "baseline") and longer is not None:
                found.longer += preference.preference == longer
                found.shorter += preference.preference != longer

    def findings(self) -> list[HealthFinding]:
        """What is worth a word, grader by grader."""
        found = [one for name, grader in self._graders.items() for one in _of_grader(name, grader)]
        found += [one for name, pairwise in self._pairwise.items() for one in _of_pairwise(name, pairwise)]
        found += [one for names, table in self._pairs.items() for one in _of_two(names, table)]
        return found


def slot_records(calls: Sequence[PairCall]) -> Iterator[tuple[Slot, Slot]]:
    """Pairs that were asked in both orders, as slots: (baseline first, candidate first)."""
    slots: dict[tuple[int, int, int], dict[str, Slot]] = {}
    for call in calls:
        if call.preference is None:
            continue
        first = "baseline" if call.order == "baseline_first" else "candidate"
        slot: Slot = "tie" if call.preference == "tie" else "first" if call.preference == first else "second"
        slots.setdefault((call.rep, call.baseline_trial, call.candidate_trial), {})[call.order] = slot
    for found in slots.values():
        if len(found) == 2:
            yield found["baseline_first"], found["candidate_first"]


def _longer(
    calls: Sequence[PairCall], candidate: str, baseline: str, lengths: Mapping[tuple[str, int], int]
) -> str | None:
    """Which side's answers are longer, by a tenth or more; None when neither's are, or it is not known."""
    ours = [lengths.get((candidate, call.candidate_trial)) for call in calls]
    theirs = [lengths.get((baseline, call.baseline_trial)) for call in calls]
    if None in ours or None in theirs:
        return None
    own, other = sum(length or 0 for length in ours), sum(length or 0 for length in theirs)
    if own == other or max(own, other) < LONGER_BY * min(own, other):
        return None
    return "candidate" if own > other else "baseline"


def _of_grader(name: str, grader: _Grader) -> Iterator[HealthFinding]:
    judged = grader.judged
    if judged >= ENOUGH and (not grader.failed or not grader.passed):
        word = "passed" if grader.passed else "failed"
        yield HealthFinding(
            grader=name,
            kind="always_passes" if grader.passed else "never_passes",
            said=f"{name} {word} every one of {judged} answers: here it tells nothing apart.",
            n=judged,
        )
    if grader.errors >= 2 and grader.errors / grader.asked > OFTEN:
        said = f"{name} gave no verdict {grader.errors} times of {grader.asked}."
        yield HealthFinding(grader=name, kind="often_errors", said=said, n=grader.asked, count=grader.errors)
    if grader.repeated >= ENOUGH and grader.spread / grader.repeated > UNSTEADY:
        said = f"{name} does not repeat itself: {grader.spread} of {grader.repeated} repeated scores spread."
        yield HealthFinding(grader=name, kind="unsteady", said=said, n=grader.repeated, count=grader.spread)
    for client, wrong in grader.contradicts.items():
        if wrong:
            verb = "fails" if STAND_INS[client] else "passes"
            said = f"{name} {verb} {wrong} of {grader.stand_in[client]} answers of {client}, which are known."
            yield HealthFinding(
                grader=name, kind=f"contradicts_{client}", said=said, n=grader.stand_in[client], count=wrong
            )


def _of_pairwise(name: str, pairwise: _Pairwise) -> Iterator[HealthFinding]:
    records = list(pairwise.records.elements())
    bias = position_bias(records)
    flips = bias.flips_to_first + bias.flips_to_second
    if bias.p_flips < LEVEL:
        slot = "first" if bias.flips_to_first > bias.flips_to_second else "second"
        most = max(bias.flips_to_first, bias.flips_to_second)
        said = f"{name} prefers whatever stands {slot}: {most} of {len(records)} pairs go by the order alone."
        yield HealthFinding(grader=name, kind=f"prefers_{slot}", said=said, n=len(records), count=most, p=bias.p_flips)
    elif len(records) >= ENOUGH and flips / len(records) > UNSTEADY:
        said = f"{name} names another side when the order changes in {flips} of {len(records)} pairs."
        yield HealthFinding(grader=name, kind="inconsistent", said=said, n=len(records), count=flips)
    decided = pairwise.longer + pairwise.shorter
    p = coin_two_sided_p(pairwise.longer, decided)
    if p < LEVEL and decided and pairwise.longer / decided >= LONGER_SHARE:
        said = (
            f"{name} preferred the longer answer in {pairwise.longer} of {decided} decided cases; "
            "'mst judges assess --bias' tells whether it goes by length."
        )
        yield HealthFinding(grader=name, kind="prefers_longer", said=said, n=decided, count=pairwise.longer, p=p)
    if pairwise.errors >= 2 and pairwise.errors / pairwise.calls > OFTEN:
        said = f"{name} gave no answer in {pairwise.errors} of {pairwise.calls} calls."
        yield HealthFinding(grader=name, kind="often_errors", said=said, n=pairwise.calls, count=pairwise.errors)


def _of_two(names: tuple[str, str], table: Counter[tuple[bool, bool]]) -> Iterator[HealthFinding]:
    verdicts = list(table.elements())
    kappa = cohen_kappa([one for one, _ in verdicts], [other for _, other in verdicts])
    differ = table[True, False] + table[False, True]
    if len(verdicts) >= ENOUGH and kappa.kappa is not None and kappa.kappa < 0 and differ * 2 > len(verdicts):
        said = f"{names[0]} and {names[1]} contradict each other on {differ} of {len(verdicts)} answers."
        yield HealthFinding(
            grader=names[0], other=names[1], kind="contradict", said=said, n=len(verdicts), count=differ
        )
