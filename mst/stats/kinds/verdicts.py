"""Kinds of the decision: the one-sided sign-flip test, the verdict rule, broken regression cases."""

from __future__ import annotations

from typing import Any

from mst.stats.cases import CandidateData, CaseData, TrialCounts
from mst.stats.compare import NOTHING_COMPARED, compare
from mst.stats.decision import Verdict, decide
from mst.stats.kinds.estimates import trial_counts
from mst.stats.kinds.registry import Inputs, Result, Table, either
from mst.stats.regression import check_regressions

KINDS = Table()

_TRIALS = "list of cases, each a list of 0 and 1; null is a trial without a verdict"
_FAMILIES = "the family of each case; null for none"


@KINDS.add(
    "sign_flip_one_sided",
    "the paired test that verdicts rest on, one-sided both ways",
    candidate=_TRIALS,
    baseline=_TRIALS,
    clusters_opt=_FAMILIES,
)
def _sign_flip(inputs: Inputs) -> Result:
    inputs.same_length("candidate", "baseline")
    found = compare(_cases(inputs, inputs.items("baseline"), "baseline", inputs.items("candidate"), "candidate"))
    return {
        "n_cases": found.n_cases,
        "n_units": found.n_units,
        "unmatched": found.unmatched,
        "up": found.units_up,
        "down": found.units_down,
        "decisive": found.decisive_units,
        "mean_difference": either(found.difference, NOTHING_COMPARED),
        "p_better": found.p_better,
        "p_worse": found.p_worse,
        "approximate": found.approximate,
    }


@KINDS.add(
    "decision",
    "the verdict on every variant of a run against its baseline",
    baseline="name of the baseline",
    variants=f"object: variant -> {_TRIALS}; all variants list the same cases in the same order",
    clusters_opt=_FAMILIES,
)
def _decision(inputs: Inputs) -> Result:
    variants = {
        name: inputs.as_items(trials, f"variants.{name}") for name, trials in inputs.mapping("variants").items()
    }
    baseline = inputs.raw("baseline")
    if not isinstance(baseline, str) or baseline not in variants:
        raise inputs.fail("baseline", f"must be one of the variants: {', '.join(variants)}")
    for name, trials in variants.items():
        if len(trials) != len(variants[baseline]):
            raise inputs.fail(f"variants.{name}", "every variant must list as many cases as the baseline")
    candidates = [
        CandidateData(name, _cases(inputs, variants[baseline], f"variants.{baseline}", trials, f"variants.{name}"))
        for name, trials in variants.items()
        if name != baseline
    ]
    return {verdict.variant: _verdict(verdict) for verdict in decide(candidates)}


def _verdict(verdict: Verdict) -> Result:
    comparison = verdict.comparison
    result: Result = {
        "p_better": comparison.p_better,
        "p_better_holm": verdict.p_better_holm,
        "p_worse": comparison.p_worse,
        "up": comparison.units_up,
        "down": comparison.units_down,
        "verdict": verdict.word,
        "interval_level": comparison.interval.level,
        "difference": either(comparison.difference, NOTHING_COMPARED),
        "interval": comparison.interval,
        "n_cases": comparison.n_cases,
        "unmatched": comparison.unmatched,
        "missing": comparison.baseline.missing + comparison.candidate.missing,
        "test": comparison.test,
        "approximate": comparison.approximate,
    }
    return {**result, "reason": verdict.reason} if verdict.reason else result


@KINDS.add(
    "regressions",
    "has a case broken? one-sided Fisher test per case, Holm over cases",
    cases="list of {baseline: [passed, failed], candidate: [passed, failed]} trials",
)
def _regressions(inputs: Inputs) -> Result:
    cases = []
    for index, case in enumerate(inputs.items("cases")):
        place = f"cases[{index}]"
        if not isinstance(case, dict) or set(case) != {"baseline", "candidate"}:
            raise inputs.fail(place, "must be an object with baseline, candidate")
        baseline, candidate = (_counts(inputs, case[side], f"{place}.{side}") for side in ("baseline", "candidate"))
        cases.append(CaseData(str(index), baseline, candidate, regression=True))
    checks = {int(check.case_id): check for check in check_regressions(cases)}
    reason = "a side has no trial"
    found = [checks.get(index) for index in range(len(cases))]
    return {
        "p": [either(check.p if check else None, reason) for check in found],
        "p_holm": [either(check.p_holm if check else None, reason) for check in found],
    }


def _counts(inputs: Inputs, value: Any, place: str) -> TrialCounts:
    pair = inputs.as_items(value, place)
    if len(pair) != 2:
        raise inputs.fail(place, "must be [passed, failed]")
    passed, failed = (inputs.as_integer(count, f"{place}[{index}]", 0, 10_000) for index, count in enumerate(pair))
    return TrialCounts(passed, passed + failed, passed + failed)


def _cases(
    inputs: Inputs, baseline: list[Any], baseline_place: str, candidate: list[Any], candidate_place: str
) -> list[CaseData]:
    families = inputs.families("clusters", len(baseline)) if "clusters" in inputs else [None] * len(baseline)
    return [
        CaseData(
            str(index),
            trial_counts(inputs, before, f"{baseline_place}[{index}]"),
            trial_counts(inputs, after, f"{candidate_place}[{index}]"),
            family=None if family is None else str(family),
        )
        for index, (before, after, family) in enumerate(zip(baseline, candidate, families, strict=True))
    ]
