"""The report page's content, put into words and figures; the template only places it."""

from __future__ import annotations

import shlex
from dataclasses import dataclass
from typing import Any

from mst.model.numbers import Rate
from mst.model.run import GraderRecord, RunRecord
from mst.model.summary import Pairwise, PairwiseSummary, SummaryRecord, VariantSummary, VerdictRecord
from mst.report import figures
from mst.report.beside import enough_line, fact_tables, repeats_line
from mst.report.differences import Differences, differences
from mst.report.failures import Group
from mst.report.rows import Rows
from mst.report.table import comparison_rows
from mst.report.text import names, variant_label
from mst.report.words import (
    claim,
    counts_line,
    evidence,
    interval_note,
    pairwise_line,
    phases_line,
    warnings,
)

MAX_SHOWN_GROUPS = 40
SHOWN_FLIPS = 12


@dataclass(frozen=True, slots=True)
class Headline:
    """One variant in the Result section. Bar positions are in per cent of the track, None when there is no rate."""

    name: str
    description: str
    is_baseline: bool
    cases: str
    rate: str
    interval: str
    bar: tuple[float, float, float] | None
    """Low end, high end and middle."""
    verdict: VerdictRecord | None
    sentence: str
    flips: list[tuple[str, str]]
    pairwise: list[str]
    beside: list[str]
    """Short forms of what the tables behind the toggles say."""
    counts: str


@dataclass(frozen=True, slots=True)
class GraderRow:
    """One grader in the footer, and where it applied."""

    name: str
    levels: str
    model: str
    version: str
    identity: str


def headlines(run: RunRecord, summary: SummaryRecord) -> list[Headline]:
    """The variants in the run's order."""
    verdicts = {verdict.candidate: verdict for verdict in summary.verdicts}
    descriptions = {variant.name: variant.description or "" for variant in run.variants}
    return [
        Headline(
            name=variant_label(variant.name),
            description=descriptions.get(variant.name, ""),
            is_baseline=variant.name == summary.baseline,
            cases=f"{variant.result.passed:,} of {figures.count(variant.result.total, 'case')} passed",
            rate=figures.percent(variant.pass_rate),
            interval=figures.percent_interval(variant.pass_rate_interval),
            bar=_bar(variant),
            verdict=verdicts.get(variant.name),
            sentence=_sentence(summary, variant, verdicts.get(variant.name)),
            flips=_flips(verdicts.get(variant.name)),
            pairwise=[pairwise_line(pairwise) for pairwise in variant.pairwise or []],
            beside=_beside(variant, verdicts.get(variant.name)),
            counts=counts_line(variant.counts),
        )
        for variant in summary.variants
    ]


def _beside(variant: VariantSummary, verdict: VerdictRecord | None) -> list[str]:
    lines = [repeats_line(variant), enough_line(verdict) if verdict is not None else None]
    return [line[:1].upper() + line[1:] if line.startswith("enough") else line for line in lines if line is not None]


def _bar(variant: VariantSummary) -> tuple[float, float, float] | None:
    if variant.pass_rate is None:
        return None
    middle = variant.pass_rate * 100
    interval = variant.pass_rate_interval
    low, high = (interval.lower * 100, interval.upper * 100) if interval else (middle, middle)
    return (round(max(0.0, low), 3), round(min(100.0, high), 3), round(middle, 3))


def _sentence(summary: SummaryRecord, variant: VariantSummary, verdict: VerdictRecord | None) -> str:
    if variant.name == summary.baseline:
        return "The baseline: the others are compared with it, case by case."
    if verdict is None:
        return "Not compared: the baseline is not part of this run, or nothing is graded."
    reason = f" Why: {verdict.reason}." if verdict.reason else ""
    said_beside = [note for note in (interval_note(verdict), *verdict.notes) if note]
    notes = "".join(f" {sentence_case(note, verdict).rstrip('.')}." for note in said_beside)
    said = f"{claim(verdict)}: {evidence(verdict, candidates=len(summary.verdicts))}"
    return f"{said}{_cost_and_time(summary, variant)}.{reason}{notes}"


def sentence_case(note: str, verdict: VerdictRecord) -> str:
    """With a capital letter, unless the sentence begins with the ID of a case: that is as somebody wrote it."""
    is_named = any(note.startswith(f"{case}:") for case in (*verdict.regressions, *verdict.flips_down))
    return note if is_named else note[:1].upper() + note[1:]


def _cost_and_time(summary: SummaryRecord, variant: VariantSummary) -> str:
    """How a candidate's mean cost and time differ from the baseline's, as far as both are known."""
    baseline = next((other for other in summary.variants if other.name == summary.baseline), None)
    if baseline is None:
        return ""
    said = ""
    compared = (("cost_usd_mean", "cost", figures.money), ("duration_s_mean", "time", figures.seconds))
    for metric, noun, written in compared:
        before, after = baseline.metrics.get(metric), variant.metrics.get(metric)
        if before is not None and after is not None:
            said += f"; {noun} a trial {written(after)} against {written(before)}"
    return said


def _flips(verdict: VerdictRecord | None) -> list[tuple[str, str]]:
    if verdict is None:
        return []
    down = [case for case in verdict.flips_down if case not in set(verdict.regressions)]
    found = [("regressions", verdict.regressions), ("down", down), ("up", verdict.flips_up)]
    return [(label, names(cases, limit=SHOWN_FLIPS)) for label, cases in found if cases]


def statistics_rows(summary: SummaryRecord) -> list[list[str]]:
    """One row per verdict: the numbers behind the word."""
    return [
        [
            verdict.candidate,
            verdict.verdict,
            figures.points(verdict.difference),
            figures.points_interval(verdict.interval, verdict.level) or figures.UNKNOWN,
            figures.p_value(verdict.p_better_holm).removeprefix("p "),
            figures.p_value(verdict.p_better).removeprefix("p "),
            figures.p_value(verdict.p_worse).removeprefix("p "),
            verdict.test,
            f"{verdict.cases_compared:,}",
            f"{verdict.cases_unmatched:,}",
            f"{verdict.errored:,} / {verdict.missing:,}",
            f"{len(verdict.flips_up):,} / {len(verdict.flips_down):,}",
        ]
        for verdict in summary.verdicts
    ]


def pairwise_rows(summary: SummaryRecord) -> list[Pairwise]:
    """All comparisons by pairwise judges, candidates in the run's order."""
    return [pairwise for variant in summary.variants for pairwise in variant.pairwise or []]


def decisive_share(found: PairwiseSummary) -> str:
    """The candidate's share of the cases that were not ties, with Wilson's interval."""
    decisive = found.candidate_wins + found.baseline_wins
    if not decisive:
        return figures.UNKNOWN
    share = figures.percent(found.candidate_wins / decisive)
    return f"{share} {figures.percent_interval(found.decisive_interval)}".strip()


def held_out_lines(summary: SummaryRecord) -> list[str]:
    """The held-out cases of each candidate, reported apart and outside the decision."""
    return [
        f"{variant_label(verdict.candidate)}: {figures.points(verdict.held_out.get('difference'))}"
        f"{_held_out_interval(verdict.held_out)} on "
        f"{figures.count(int(verdict.held_out.get('cases', 0)), 'held-out case')}, "
        f"{len(verdict.held_out.get('flipsUp') or []):,} up, {len(verdict.held_out.get('flipsDown') or []):,} down "
        "(not part of the verdict)"
        for verdict in summary.verdicts
        if verdict.held_out
    ]


def _held_out_interval(found: dict[str, Any]) -> str:
    interval = found.get("interval")
    return f" {figures.points_interval(Rate.model_validate(interval), found['level'])}" if interval else ""


def previous_lines(summary: SummaryRecord) -> list[str]:
    """How this run differs from the one before it."""
    previous = summary.previous_run
    if previous is None:
        return []
    config = "the same config" if previous.same_config else "another version of the config"
    lines = [f"Compared with {previous.run_id} ({config}):"]
    for name, change in previous.variants.items():
        parts = [f"{figures.points(change.get('passRateDelta'))} of cases passed"]
        changed = (word for word in ("regressed", "improved", "added", "removed") if change.get(word))
        parts += [f"{word} {names(change[word])}" for word in changed]
        lines.append(f"{name}: {'; '.join(parts)}")
    return lines


def context(run: RunRecord, summary: SummaryRecord, rows: Rows) -> dict[str, Any]:
    """Everything that the template names, apart from the index and the details."""
    failed, apart = rows.failures.groups("failed"), rows.failures.groups("apart")
    return {
        "run": run,
        "summary": summary,
        "phases": phases_line(run),
        "warnings": warnings(run, summary),
        "headlines": headlines(run, summary),
        "table": comparison_rows(summary, rows),
        "statistics": statistics_rows(summary),
        "pairwise": pairwise_rows(summary),
        "held_out": held_out_lines(summary),
        "beside": fact_tables(summary),
        "decisive": decisive_share,
        "differences": _differences(run, summary),
        "failed": failed[:MAX_SHOWN_GROUPS],
        "more_failed": _left_out(failed),
        "apart": apart[:MAX_SHOWN_GROUPS],
        "more_apart": _left_out(apart),
        "graders": grader_rows(run),
        "previous": previous_lines(summary),
        "again": shlex.join(["mst", "run", run.config_path or "CONFIG", "--seed", str(run.order.seed)]),
        "case_count": len(rows.cases),
        "figures": figures,
    }


def grader_rows(run: RunRecord) -> list[GraderRow]:
    """The recorded graders, those with one name and identity together."""
    levels: dict[tuple[str, str], list[str]] = {}
    found: dict[tuple[str, str], GraderRecord] = {}
    for grader in run.graders or run.judges:
        key = (grader.name or grader.type, grader.identity)
        levels.setdefault(key, []).append(grader.level)
        found.setdefault(key, grader)
    return [
        GraderRow(
            name=name,
            levels=names(levels[name, identity]),
            model=grader.model or figures.UNKNOWN,
            version=grader.version or grader.plugin_version or figures.UNKNOWN,
            identity=identity,
        )
        for (name, identity), grader in found.items()
    ]


def _differences(run: RunRecord, summary: SummaryRecord) -> Differences:
    shown = {variant.name for variant in summary.variants}
    kept = [variant for variant in run.variants if variant.name in shown]
    return differences(run.model_copy(update={"variants": kept}))


def _left_out(groups: list[Group]) -> int:
    return max(0, len(groups) - MAX_SHOWN_GROUPS)
