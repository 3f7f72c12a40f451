"""Two runs held against each other: variants by name, cases by ID and content, and the decision rule over them.

The second run's variants are the candidates, each against the variant of the same name in the first. Two gradings of
the same trials get no verdict, since nothing but graders differs: their flips are counted instead.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from mst.errors import UsageError
from mst.model.comparison import (
    ComparedRun,
    ComparedSide,
    ComparedVariant,
    DecisionChange,
    MatchedCases,
    RunComparison,
    TrialFlips,
)
from mst.model.keys import short_id, source_stem
from mst.model.results import CaseResult, TrialResult
from mst.model.run import RunRecord
from mst.model.summary import SummaryRecord
from mst.runs.folder import RunFolder
from mst.runs.numbers import rate_record
from mst.runs.record import case_identity
from mst.runs.verdicts import verdict_record
from mst.stats.cases import CandidateData, CaseData, TrialCounts, totals
from mst.stats.decision import decide
from mst.stats.intervals import pass_rate

PASSED, FAILED, ERRORED, MISSING, UNGRADED = "pfemu"
"""What became of a trial, in a letter: one string a case and variant is all that is kept of a run."""


@dataclass(frozen=True, slots=True)
class _Case:
    identity: bytes
    family: str | None
    held_out: bool
    regression: bool


@dataclass(frozen=True, slots=True)
class _Read:
    """What is kept of a run: facts of its cases, and its trials' letters by variant and case."""

    run: RunRecord
    summary: SummaryRecord
    cases: dict[str, _Case]
    trials: dict[str, dict[str, str]]


def compare_runs(first: RunFolder, second: RunFolder) -> RunComparison:
    """Hold the second run against the first. Memory grows by some hundred bytes for a case, not with trials' contents.

    The `changes` of the result are left to whoever shows it.

    Raises:
        UsageError: one of them is not graded, both are the same, or they have no variant in common.
        CorruptFile: a document cannot be read.
    """
    before, after = _read(first), _read(second)
    if before.run.run_id == after.run.run_id:
        raise UsageError(f"{first.run_id} is the same run twice; name another one to compare it with")
    names = [name for name in before.trials if name in after.trials]
    if not names:
        raise UsageError(
            f"no variant has the same name in both runs: {before.run.run_id} has {', '.join(before.trials)}; "
            f"{after.run.run_id} has {', '.join(after.trials)}"
        )
    same_trials = source_stem(before.run.run_id) == source_stem(after.run.run_id)
    matched, cases = _match(before, after, by_id=same_trials)
    compared = _flips if same_trials else _verdicts
    return RunComparison(
        first=_compared_run(before.run),
        second=_compared_run(after.run),
        same_trials=same_trials,
        cases=cases,
        variants=compared(before, after, names, matched),
        variants_first_only=[name for name in before.trials if name not in after.trials],
        variants_second_only=[name for name in after.trials if name not in before.trials],
        decisions=_decisions(before, after),
    )


def trial_letter(trial: TrialResult) -> str:
    """A stored trial's fate, as `mst.runs.outcome` decided it."""
    if trial.passed is not None:
        return PASSED if trial.passed else FAILED
    if trial.failure_kind == "missing":
        return MISSING
    return UNGRADED if trial.ungraded else ERRORED


def counts_of(letters: str) -> TrialCounts:
    """Trials of one case and variant in whole numbers. An ungraded trial owes nobody a verdict."""
    passed, failed, errored = letters.count(PASSED), letters.count(FAILED), letters.count(ERRORED)
    return TrialCounts(
        passed=passed,
        scored=passed + failed,
        planned=passed + failed + errored + letters.count(MISSING),
        errored=errored,
    )


def _read(folder: RunFolder) -> _Read:
    run = folder.run()
    if run.phases.grade == "skipped":
        raise UsageError(f"{run.run_id} was only collected; grade it first with 'mst grade {short_id(run.run_id)}'")
    summary = folder.summary()
    cases = {
        case.id: _Case(
            identity=bytes.fromhex(case_identity(case)),
            family=case.family,
            held_out="held-out" in case.tags,
            regression="regression" in case.tags,
        )
        for case in folder.cases()
    }
    trials: dict[str, dict[str, str]] = {variant.name: {} for variant in summary.variants}
    for result in folder.case_results():
        trials.setdefault(result.variant, {})[result.id] = _letters(result)
    return _Read(run, summary, cases, trials)


def _letters(result: CaseResult) -> str:
    """A case of one trial may be stored without a list."""
    if result.trial_results is None:
        return ERRORED if result.passed is None else PASSED if result.passed else FAILED
    return "".join(map(trial_letter, result.trial_results))


def _match(before: _Read, after: _Read, *, by_id: bool) -> tuple[list[str], MatchedCases]:
    """The cases to compare, in the second run's order, and what became of the others."""
    shared = [case_id for case_id in after.cases if case_id in before.cases]
    changed = [one for one in shared if before.cases[one].identity != after.cases[one].identity]
    left_out = set() if by_id else set(changed)
    matched = [case_id for case_id in shared if case_id not in left_out]
    return matched, MatchedCases(
        matched=len(matched),
        changed=changed,
        first_only=[case_id for case_id in before.cases if case_id not in after.cases],
        second_only=[case_id for case_id in after.cases if case_id not in before.cases],
    )


def _verdicts(before: _Read, after: _Read, names: Sequence[str], matched: Sequence[str]) -> list[ComparedVariant]:
    candidates = [CandidateData(variant=name, cases=_case_data(before, after, name, matched)) for name in names]
    first, second = short_id(before.run.run_id), short_id(after.run.run_id)
    return [
        ComparedVariant(
            name=verdict.variant,
            first=_side(after.cases, matched, [case.baseline for case in candidate.cases]),
            second=_side(after.cases, matched, [case.candidate for case in candidate.cases]),
            verdict=verdict_record(
                verdict, candidate=f"{verdict.variant} in {second}", baseline=f"{verdict.variant} in {first}"
            ),
        )
        for candidate, verdict in zip(candidates, decide(candidates), strict=True)
    ]


def _case_data(before: _Read, after: _Read, name: str, matched: Iterable[str]) -> list[CaseData]:
    found = []
    for case_id in matched:
        case = after.cases[case_id]
        found.append(
            CaseData(
                case_id=case_id,
                baseline=counts_of(before.trials[name].get(case_id, "")),
                candidate=counts_of(after.trials[name].get(case_id, "")),
                family=case.family,
                held_out=case.held_out,
                regression=case.regression,
            )
        )
    return found


def _side(cases: dict[str, _Case], matched: Sequence[str], counts: Sequence[TrialCounts]) -> ComparedSide:
    families = [cases[case_id].family for case_id in matched]
    estimate = pass_rate(counts, families if any(families) else None)
    summed = totals(counts)
    return ComparedSide(
        passed=summed.passed,
        scored=summed.scored,
        planned=summed.planned,
        errored=summed.errored,
        missing=summed.missing,
        pass_rate=estimate.rate,
        pass_rate_interval=rate_record(estimate.interval),
    )


def _flips(before: _Read, after: _Read, names: Sequence[str], matched: Sequence[str]) -> list[ComparedVariant]:
    def side(read: _Read, name: str) -> ComparedSide:
        return _side(after.cases, matched, [counts_of(read.trials[name].get(one, "")) for one in matched])

    return [
        ComparedVariant(
            name=name,
            first=side(before, name),
            second=side(after, name),
            flips=_variant_flips(before.trials[name], after.trials[name], matched),
        )
        for name in names
    ]


def _variant_flips(before: dict[str, str], after: dict[str, str], matched: Iterable[str]) -> TrialFlips:
    pairs = [
        (case_id, then, now)
        for case_id in matched
        for then, now in zip(before.get(case_id, ""), after.get(case_id, ""), strict=False)
    ]

    def chosen(wanted: Callable[[str, str], bool]) -> list[str]:
        return [case_id for case_id, then, now in pairs if wanted(then, now)]

    up, down = chosen(lambda then, now: then + now == "fp"), chosen(lambda then, now: then + now == "pf")
    return TrialFlips(
        trials=len(pairs),
        up=len(up),
        down=len(down),
        gained=len(chosen(lambda then, now: then not in "pf" and now in "pf")),
        lost=len(chosen(lambda then, now: then in "pf" and now not in "pf")),
        cases_up=list(dict.fromkeys(up)),
        cases_down=list(dict.fromkeys(down)),
    )


def _compared_run(run: RunRecord) -> ComparedRun:
    return ComparedRun(
        run_id=run.run_id,
        eval_name=run.eval_name,
        created_at=run.created_at,
        graded_from=run.graded_from,
        phases=run.phases,
        narrowed=run.partial,
        mst_version=run.mst.version,
    )


def _decisions(before: _Read, after: _Read) -> list[DecisionChange]:
    """The verdicts inside both, where both have one on the same candidate."""
    then = {verdict.candidate: verdict for verdict in before.summary.verdicts}
    return [
        DecisionChange(
            candidate=now.candidate,
            first_baseline=then[now.candidate].baseline,
            second_baseline=now.baseline,
            first=then[now.candidate].verdict,
            second=now.verdict,
        )
        for now in after.summary.verdicts
        if now.candidate in then
    ]
