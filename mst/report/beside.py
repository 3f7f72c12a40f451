"""The numbers beside the verdicts, as tables behind the report's toggles; short forms of them for the terminal."""

from __future__ import annotations

from dataclasses import dataclass

from mst.model.numbers import EnoughRecord, MetricDifference, PositionUse, Rate, RepeatRate
from mst.model.summary import SummaryRecord, VariantSummary, VerdictRecord
from mst.report import figures
from mst.report.text import case_label, one_line, variant_label

UNSURE = {"no difference shown", "cannot tell"}
"""The verdicts after which a reader asks whether there was enough data."""
MAX_REGRESSIONS = 50


@dataclass(frozen=True, slots=True)
class FactTable:
    """One table behind a toggle; the first cell of a row is its heading."""

    title: str
    heads: list[str]
    rows: list[list[str]]
    note: str


def fact_tables(summary: SummaryRecord) -> list[FactTable]:
    """Those that have something to say about this run."""
    tables = [_enough(summary), _repeats(summary), _metrics(summary), _positions(summary), _regressions(summary)]
    return [table for table in [*tables, _without_score(summary)] if table.rows]


def enough_line(verdict: VerdictRecord) -> str | None:
    """What a comparison without a clear outcome could have found; None after a clear one, or when that is unknown."""
    found = verdict.enough
    if found is None or verdict.verdict not in UNSURE or found.detectable is None:
        return None
    parts = [f"enough data? finds {_size(found.detectable)} ({found.power:.0%} power)"]
    if found.units_for_wanted is not None and found.units_for_wanted > found.units:
        unit = ("case", "cases") if found.units == verdict.cases_compared else ("unit", "units")
        parts.append(f"{_size(found.wanted)} would need {figures.count(found.units_for_wanted, *unit)}")
    return "; ".join(parts)


def repeats_line(variant: VariantSummary) -> str | None:
    """pass@k and pass^k for the largest k that every scored case has; None at one trial a case."""
    whole = [rate for rate in variant.repeats if not rate.too_few and rate.k > 1]
    if not whole:
        return None
    rate, first = whole[-1], variant.repeats[0]
    return (
        f"{one_line(variant.name, limit=60)}: pass@1 {figures.percent(first.pass_at_k)}, "
        f"pass@{rate.k} {figures.percent(rate.pass_at_k)}, pass^{rate.k} {figures.percent(rate.pass_hat_k)}"
    )


def position_words(found: PositionUse) -> str:
    """What became of a pairwise judge's answers when the order changed."""
    flips = f"flips {found.flips_to_first:,} to first, {found.flips_to_second:,} to second"
    return f"{flips} ({figures.p_value(found.p_flips)})"


def _size(difference: float) -> str:
    return f"{difference * 100:.1f} points"


def _enough(summary: SummaryRecord) -> FactTable:
    rows = [_enough_row(verdict.candidate, verdict.enough) for verdict in summary.verdicts if verdict.enough]
    return FactTable(
        "Is there enough data?",
        ["candidate", "units compared", "units that differ", "needed to differ", "smallest p reachable",
         "smallest difference found", "to find the wanted one", "more trials a case"],
        rows,
        "A unit is a case, or a family of cases. The smallest p reachable is the one-sided p if all units that differ "
        "pointed the same way. The smallest difference found, and the number of units for the wanted one, come from "
        "the spread between units (normal approximation); they are unknown without spread.",
    )  # fmt: skip


def _enough_row(candidate: str, found: EnoughRecord) -> list[str]:
    wanted = figures.UNKNOWN
    if found.units_for_wanted is not None:
        wanted = f"{figures.count(found.units_for_wanted, 'unit')} for {_size(found.wanted)}"
    detectable = figures.UNKNOWN
    if found.detectable is not None:
        detectable = f"{_size(found.detectable)} at {found.power:.0%} power"
    return [
        variant_label(candidate),
        f"{found.units:,}",
        f"{found.decisive_units:,}",
        f"{found.decisive_needed:,}",
        figures.p_value(found.smallest_p).removeprefix("p "),
        detectable,
        wanted,
        "add nothing: one trial was used" if found.more_trials_add_nothing else "may help",
    ]


def _repeats(summary: SummaryRecord) -> FactTable:
    rows = [
        [f"{variant_label(variant.name)}, k = {rate.k}", *_repeat_cells(rate)]
        for variant in summary.variants
        for rate in variant.repeats
    ]
    return FactTable(
        "Repeated trials",
        ["variant", "any of k passes (pass@k)", "all of k pass (pass^k)", "cases", "too few trials"],
        rows,
        "Unbiased means over the cases with at least k scored trials, with 95% intervals between cases or families. "
        "For k = 1 both are the trial pass rate.",
    )


def _repeat_cells(rate: RepeatRate) -> list[str]:
    return [
        f"{figures.percent(rate.pass_at_k)} {figures.percent_interval(rate.pass_at_k_interval)}".strip(),
        f"{figures.percent(rate.pass_hat_k)} {figures.percent_interval(rate.pass_hat_k_interval)}".strip(),
        f"{rate.cases:,}",
        f"{rate.too_few:,}",
    ]


def _metrics(summary: SummaryRecord) -> FactTable:
    rows = [
        [f"{variant_label(verdict.candidate)}: {one_line(name, limit=60).replace('_', ' ')}", *_metric_cells(found)]
        for verdict in summary.verdicts
        for name, found in verdict.metric_differences.items()
    ]
    return FactTable(
        "How the metrics differ",
        ["candidate and metric", "difference", "95% interval", "cases", "not known"],
        rows,
        "Candidate less baseline, mean over the cases in which both know the metric; t-interval between cases or "
        "families, none where all differences are the same. Held-out cases are left out. Metrics get intervals and "
        "no verdict: with many of them some interval misses 0 by chance.",
    )


def _metric_cells(found: MetricDifference) -> list[str]:
    difference = figures.UNKNOWN if found.difference is None else _signed(found.difference)
    return [difference, _metric_interval(found.interval), f"{found.cases:,}", f"{found.unknown:,}"]


def _metric_interval(interval: Rate | None) -> str:
    return figures.UNKNOWN if interval is None else f"[{_signed(interval.lower)}, {_signed(interval.upper)}]"


def _signed(value: float) -> str:
    return f"{value:+,.4g}" if value else "0"


def _positions(summary: SummaryRecord) -> FactTable:
    rows = [
        [
            f"{one_line(pairwise.judge, limit=60)} on {variant_label(pairwise.candidate)}",
            f"{found.pairs:,}",
            f"{found.consistent:,} ({figures.percent(found.consistent / found.pairs)})",
            f"{found.flips_to_first:,}",
            f"{found.flips_to_second:,}",
            figures.p_value(found.p_flips).removeprefix("p "),
            f"{found.half_flips:,}",
            f"{figures.percent(found.first_share)} of {found.decisive:,}",
        ]
        for variant in summary.variants
        for pairwise in variant.pairwise or []
        if (found := pairwise.summary.position) is not None
    ]
    return FactTable(
        "Does the order of the answers matter to the judge?",
        ["judge and candidate", "pairs in both orders", "consistent", "flips to first", "flips to second",
         "p of the flips", "half flips", "first slot's share of decisive answers"],
        rows,
        "A flip: both orders name the same slot, so the order decided. Without position bias flips go either way "
        "(two-sided exact test). A half flip: a tie in one order only.",
    )  # fmt: skip


def _regressions(summary: SummaryRecord) -> FactTable:
    rows = [
        [
            f"{case_label(found.case_id)} under {variant_label(verdict.candidate)}",
            f"{found.baseline_passed} of {found.baseline_scored}",
            f"{found.candidate_passed} of {found.candidate_scored}",
            figures.p_value(found.p).removeprefix("p "),
            figures.p_value(found.p_holm).removeprefix("p "),
            _weight(evidence=found.evidence, needed=found.trials_needed),
        ]
        for verdict in summary.verdicts
        for found in verdict.regression_tests
    ]
    left_out = f" {len(rows) - MAX_REGRESSIONS:,} more are in summary.json." if len(rows) > MAX_REGRESSIONS else ""
    return FactTable(
        "Regression cases that fell",
        ["case", "baseline passed", "candidate passed", "p", "p, Holm", "evidence"],
        rows[:MAX_REGRESSIONS],
        f"Fisher's exact test on the trials, one-sided; Holm over the candidate's tagged cases.{left_out}",
    )


def _weight(*, evidence: bool, needed: int | None) -> str:
    if evidence:
        return "yes"
    return "no" if needed is None else f"needs {needed:,} trials to be evidence"


def _without_score(summary: SummaryRecord) -> FactTable:
    rows = [
        [
            variant_label(name),
            f"{policy.without_score:,}",
            *(figures.percent(rate) for rate in (policy.exclude, policy.count_as_fail, policy.lower, policy.upper)),
        ]
        for name, policy in summary.error_policy.items()
    ]
    return FactTable(
        "Trials without a score",
        ["variant", "errored or missing", "left out (policy)", "counted as fail", "at worst", "at best"],
        rows,
        "The share of passed trials when trials without a score count in other ways.",
    )
