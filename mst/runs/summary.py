"""`summary.json`: from a run's totals to rates, verdicts and warnings. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from mst.model.base import digest
from mst.model.case import Variant
from mst.model.run import Phases, RunRecord
from mst.model.summary import (
    ErrorPolicy,
    Pairwise,
    PairwiseSummary,
    PreviousRun,
    SummaryMetrics,
    SummaryRecord,
    Telemetry,
    Unmatched,
    VariantDelta,
    VariantResult,
    VariantSummary,
    VerdictRecord,
)
from mst.providers.spending import known_usage
from mst.runs.numbers import groups, metric_differences, position, rate_record, repeats
from mst.runs.outcome import Fate
from mst.runs.totals import PairwiseTotals, Totals, VariantTotals
from mst.runs.verdicts import verdict_record
from mst.stats.bounds import error_bounds
from mst.stats.cases import CandidateData, TrialCounts
from mst.stats.decision import decide
from mst.stats.intervals import pass_rate, wilson
from mst.stats.special import coin_two_sided_p

BUILT_IN_METRICS = (
    "tool_count_mean",
    "mcp_call_count_mean",
    "builtin_event_count_mean",
    "tool_search_hit_rate",
    "input_tokens_mean",
    "output_tokens_mean",
    "cost_usd_mean",
    "duration_s_mean",
    "judge_pass_rate",
    "judge_score",
)
FEW_CASES = 6


def summarize(
    run: RunRecord, totals: Totals, phases: Phases, *, timestamp: str, duration_ms: float, previous: PreviousRun | None
) -> SummaryRecord:
    """The summary of a graded run.

    Args:
        run: its record; `run.selection` makes it comparable only with runs narrowed the same way.
        totals: of all its cases.
        phases: how far it came.
        timestamp: when it was graded, ISO 8601.
        duration_ms: of the grading.
        previous: how it differs from the run before it.
    """
    plan = totals.plan
    families = [case.family for case in totals.cases] if any(case.family for case in totals.cases) else None
    variants = [_variant(totals, found, families) for found in totals.variants.values()]
    by_name = {variant.name: variant for variant in variants}
    baseline = by_name.get(plan.baseline) or variants[0]
    return SummaryRecord(
        run_id=run.run_id,
        config_id=run.config_id,
        content_hash=run.content_hash,
        config_name=run.eval_name,
        timestamp=timestamp,
        duration_ms=round(duration_ms, 3),
        partial=run.partial or None,
        selection=run.selection,
        selection_hash=digest(run.selection) if run.selection is not None else None,
        graded=False if phases.grade == "skipped" else None,
        collected_at=run.created_at if run.graded_from is None else None,
        baseline=plan.baseline,
        phases=phases,
        variants=variants,
        metrics=_headline(totals, baseline, graded=phases.grade != "skipped"),
        telemetry=_telemetry(totals),
        variant_deltas={
            name: _delta(by_name[name], baseline)
            for name in plan.candidates
            if name in by_name and baseline.name != name
        },
        verdicts=_verdicts(totals) if phases.grade != "skipped" else [],
        grader_errors=dict(sorted(totals.grader_errors.items())),
        health=totals.health.findings() if phases.grade != "skipped" else [],
        error_policy=_error_policy(totals) if phases.grade != "skipped" else {},
        warnings=_warnings(totals, phases),
        looks=run.looks,
        previous_run=previous,
    )


def _variant(totals: Totals, found: VariantTotals, families: Sequence[str | None] | None) -> VariantSummary:
    plan = totals.plan
    variant = plan.variant(found.name)
    absent = TrialCounts(passed=0, scored=0, planned=0)
    estimate = pass_rate([case.by_variant.get(found.name, absent) for case in totals.cases], families)
    metrics = _metrics(found, estimate.rate)
    return VariantSummary(
        name=found.name,
        servers=sorted(variant.servers),
        result=VariantResult(
            total=found.cases,
            passed=found.cases_passed,
            failed=found.cases_failed,
            duration_ms=round(found.duration_ms, 3),
            total_client_usage=found.client_usage,
            total_judge_usage=found.judge_usage,
        ),
        metrics=metrics,
        counts=found.counts(),
        pass_rate=estimate.rate,
        pass_rate_interval=rate_record(estimate.interval),
        case_pass_rate=metrics["passed_rate"],
        repeats=repeats(totals, found.name),
        groups=groups(totals, found.name),
        evidence=found.evidence,
        unavailable_metrics=[name for name, value in metrics.items() if value is None] or None,
        cost_source=_cost_source(found),
        pricing=plan.pricing or None,
        pairwise=_pairwise_of(totals, found.name) or None,
        check_counts={name: dict(counts) for name, counts in sorted(found.checks.items())} or None,
    )


def _metrics(found: VariantTotals, rate: float | None) -> dict[str, float | None]:
    decided = found.cases_passed + found.cases_failed
    scored = found.fates[Fate.SCORED]
    metrics: dict[str, float | None] = {
        "passed_rate": found.cases_passed / decided if decided else None,
        "trial_pass_rate": rate if scored else None,
    }
    for name in (*BUILT_IN_METRICS, *sorted(set(found.means) - set(BUILT_IN_METRICS))):
        metrics[name] = found.means[name].value if name in found.means else None
    return metrics


def _cost_source(found: VariantTotals) -> Any:
    if found.client_usage is None or found.client_usage.cost_usd is None:
        return None
    said = found.client_usage.total_cost_usd is not None
    estimated = found.client_usage.estimated_cost_usd is not None
    return "mixed" if said and estimated else "client" if said else "pricing"


def _pairwise_of(totals: Totals, candidate: str) -> list[Pairwise]:
    one_sided = Unmatched(
        baseline_only=[case.case_id for case in totals.cases if candidate not in case.by_variant],
        candidate_only=[case.case_id for case in totals.cases if totals.plan.baseline not in case.by_variant],
    )
    return [
        Pairwise(
            baseline=totals.plan.baseline,
            candidate=candidate,
            judge=judge,
            unmatched=one_sided,
            cases=found.compared + found.skipped + found.errors,
            summary=_pairwise_summary(found),
            usage=found.usage,
        )
        for (name, judge), found in totals.pairwise.items()
        if name == candidate
    ]


def _pairwise_summary(found: PairwiseTotals) -> PairwiseSummary:
    decisive = found.candidate_wins + found.baseline_wins
    return PairwiseSummary(
        compared=found.compared,
        candidate_wins=found.candidate_wins,
        baseline_wins=found.baseline_wins,
        ties=found.ties,
        skipped=found.skipped,
        errors=found.errors,
        candidate_win_rate=(found.candidate_wins + found.ties / 2) / found.compared if found.compared else None,
        decisive_interval=rate_record(wilson(found.candidate_wins, decisive)),
        sign_test_p=coin_two_sided_p(found.candidate_wins, decisive) if decisive else None,
        consistency=found.consistent / found.both_orders if found.both_orders else None,
        position=position(found),
        usage=found.usage,
    )


def _headline(totals: Totals, baseline: VariantSummary, *, graded: bool) -> SummaryMetrics:
    found = totals.variants[baseline.name]
    if not graded:
        return SummaryMetrics(
            total=found.cases,
            passed=0,
            failed=0,
            collected=found.collected,
            failed_to_collect=found.planned - found.collected,
        )
    undecided = found.cases - found.cases_passed - found.cases_failed
    return SummaryMetrics(
        total=found.cases,
        passed=found.cases_passed,
        failed=found.cases_failed,
        pass_rate=baseline.case_pass_rate,
        incomplete=undecided or None,
        **{name: value for name, value in baseline.metrics.items() if value is not None},
    )


def _telemetry(totals: Totals) -> Telemetry:
    variants = totals.variants.values()
    return Telemetry(
        cases=len(totals.cases),
        tool_calls=sum(found.tool_calls for found in variants),
        failed_cases=sum(found.cases_failed for found in variants),
        total_client_usage=known_usage(found.client_usage for found in variants),
        total_judge_usage=known_usage(found.judge_usage for found in variants),
        pairwise_judge_usage=known_usage(found.usage for found in totals.pairwise.values()),
    )


def _delta(candidate: VariantSummary, baseline: VariantSummary) -> VariantDelta:
    deltas = {
        name: _minus(value, baseline.metrics.get(name))
        for name, value in candidate.metrics.items()
        if name not in ("passed_rate", "trial_pass_rate")
    }
    return VariantDelta(
        pass_rate=candidate.case_pass_rate,
        pass_rate_delta=_minus(candidate.case_pass_rate, baseline.case_pass_rate),
        trial_pass_rate=candidate.pass_rate,
        trial_pass_rate_delta=_minus(candidate.pass_rate, baseline.pass_rate),
        metric_deltas=deltas,
        baseline=baseline.name,
    )


def _minus(value: float | None, other: float | None) -> float | None:
    return None if value is None or other is None else value - other


def _verdicts(totals: Totals) -> list[VerdictRecord]:
    plan = totals.plan
    if plan.baseline not in totals.variants:
        return []
    candidates = [name for name in plan.candidates if name in totals.variants]
    data = [
        CandidateData(
            variant=name,
            cases=totals.case_data(name),
            treatment_unused=_unused(plan.variant(name), totals.variants[name]),
        )
        for name in candidates
    ]
    return [
        verdict_record(verdict, baseline=plan.baseline, metric_differences=metric_differences(totals, verdict.variant))
        for verdict in decide(data)
    ]


def _unused(variant: Variant, found: VariantTotals) -> str | None:
    unused = [name for name in variant.expect_used if name not in found.used]
    return f"never used {', '.join(unused)}" if unused else None


def _error_policy(totals: Totals) -> dict[str, ErrorPolicy]:
    """What trials without a score could do to each variant's rate."""
    found = {}
    for name, variant in totals.variants.items():
        scored, without = variant.fates[Fate.SCORED], variant.fates[Fate.ERRORED] + variant.fates[Fate.MISSING]
        if without:
            bounds = error_bounds(variant.passed, scored - variant.passed, without)
            found[name] = ErrorPolicy(
                without_score=without,
                exclude=bounds.exclude,
                count_as_fail=bounds.count_as_fail,
                lower=bounds.lower,
                upper=bounds.upper,
            )
    return found


def _warnings(totals: Totals, phases: Phases) -> list[str]:
    warnings = []
    if phases.collect == "partial":
        warnings.append("Collecting is partial: 'mst run CONFIG --resume RUN' collects what is missing.")
    if phases.grade == "partial":
        warnings.append("Grading is partial: 'mst grade RUN --resume' asks the graders that owe a verdict.")
    graded = phases.grade != "skipped"
    if graded and not any(found.fates[Fate.SCORED] for found in totals.variants.values()):
        warnings.append("Nothing was graded: no trial has a finding that counts.")
    warnings.extend(
        f"{found.name}: its pass rate leaves out {found.fates[Fate.UNGRADED]} ungraded of {found.planned} trials."
        for found in totals.variants.values()
        if graded and found.fates[Fate.UNGRADED]
    )
    warnings.extend(
        f"{found.name}: its program ended with an error in every trial; 'mst diagnose' tells which."
        for found in totals.variants.values()
        if found.collected and found.broken_off == found.collected
    )
    if len(totals.variants) > 1 and len(totals.cases) < FEW_CASES:
        warnings.append(f"{len(totals.cases)} cases are too few for any verdict: at least {FEW_CASES} must differ.")
    return warnings
