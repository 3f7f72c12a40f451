"""The variants side by side: one row per number, with the denominators that stand behind them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass

from mst.model.summary import SummaryRecord, VariantSummary
from mst.report import figures
from mst.report.rows import Rows
from mst.report.words import judge_mean

OWN_ROWS = {"passed_rate", "trial_pass_rate", "judge_score", "duration_s_mean", "cost_usd_mean"}
"""Metrics that have a row of their own in the comparison table."""

GROUP_TITLES = {"capability": "capability cases", "regression": "regression cases", "held-out": "held-out cases"}


@dataclass(frozen=True, slots=True)
class TableRow:
    """One row of the comparison table; a row of `group` starts a block."""

    label: str
    cells: list[str]
    group: bool = False


def comparison_rows(summary: SummaryRecord, rows: Rows) -> list[TableRow]:
    """Variants side by side: rates, denominators, checks, judges, cost and time, other metrics."""
    variants = summary.variants
    table = [
        _row("cases passed", [f"{found.result.passed:,} of {found.result.total:,}" for found in variants]),
        _row(
            "trial pass rate, interval",
            [f"{figures.percent(v.pass_rate)} {figures.percent_interval(v.pass_rate_interval)}" for v in variants],
        ),
        *_group_rows(summary, rows.groups),
        _heading("trials", variants),
        *(
            _row(label, [f"{getattr(found.counts, name) or 0:,}" for found in variants])
            for label, name in (
                ("planned", "planned"),
                ("scored", "scored"),
                ("errored (out of the rates)", "errored"),
                ("of these by a grading error", "grading_errors"),
                ("of these with nothing to score", "incomplete"),
                ("missing", "missing"),
                ("ungraded", "ungraded"),
            )
        ),
        *_check_rows(variants),
        _heading("cost and time", variants),
        _row("cost of the programs, total", [figures.cost(found.result.total_client_usage) for found in variants]),
        _row("cost of the judges, total", [figures.cost(found.result.total_judge_usage) for found in variants]),
        _metric_row("cost a trial", "cost_usd_mean", variants, figures.money),
        _metric_row("time a trial", "duration_s_mean", variants, figures.seconds),
    ]
    return [*table, *_metric_rows(variants)]


def _group_rows(summary: SummaryRecord, groups: dict[str, dict[str, Counter[str]]]) -> list[TableRow]:
    """Cases passed by group, when there is more than one group."""
    if len(groups) < 2:
        return []
    found = []
    for group, title in GROUP_TITLES.items():
        if group in groups:
            counted = [groups[group].get(variant.name, Counter()) for variant in summary.variants]
            found.append(_row(f"{title} passed", [f"{cell['passed']:,} of {cell.total():,}" for cell in counted]))
            found += _group_rate(summary, group, title)
    return found


def _group_rate(summary: SummaryRecord, group: str, title: str) -> list[TableRow]:
    rates = [variant.groups.get(group) for variant in summary.variants]
    if not any(rates):
        return []
    cells = [
        f"{figures.percent(rate.pass_rate)} {figures.percent_interval(rate.pass_rate_interval)}" if rate else "-"
        for rate in rates
    ]
    return [_row(f"{title}, trial pass rate", cells)]


def _check_rows(variants: list[VariantSummary]) -> list[TableRow]:
    checks = list(dict.fromkeys(name for found in variants for name in found.check_counts or {}))
    if not checks:
        return []
    return [_heading("checks passed", variants), *(_row(name, _check_cells(name, variants)) for name in checks)]


def _check_cells(name: str, variants: list[VariantSummary]) -> list[str]:
    found = [(variant.check_counts or {}).get(name) for variant in variants]
    return [f"{counts.get('passed', 0):,} of {counts.get('total', 0):,}" if counts else "-" for counts in found]


def _metric_rows(variants: list[VariantSummary]) -> list[TableRow]:
    metrics = list(dict.fromkeys(name for found in variants for name in found.metrics))
    known = [
        name
        for name in metrics
        if name not in OWN_ROWS and any(found.metrics.get(name) is not None for found in variants)
    ]
    judges = []
    if any(judge_mean(found) is not None for found in variants):
        judges = [_metric_row("judge score, mean", "judge_score", variants, figures.metric)]
    listed = [_metric_row(name.replace("_", " "), name, variants, figures.metric) for name in known]
    return [_heading("metrics", variants), *judges, *listed] if judges or listed else []


def _metric_row(
    label: str, metric: str, variants: list[VariantSummary], written: Callable[[float | None], str]
) -> TableRow:
    return _row(label, [written(found.metrics.get(metric)) for found in variants])


def _row(label: str, cells: list[str]) -> TableRow:
    return TableRow(label, [cell.strip() for cell in cells])


def _heading(label: str, variants: list[VariantSummary]) -> TableRow:
    return TableRow(label, [""] * len(variants), group=True)
