"""The summary on the terminal: a row per variant, a line per comparison, what is missing, and where the report is."""

from __future__ import annotations

from pathlib import Path

from rich.console import Console
from rich.table import Table
from rich.text import Text

from mst.model.keys import short_id
from mst.model.run import RunRecord
from mst.model.summary import SummaryRecord, VariantSummary, VerdictRecord
from mst.report.beside import enough_line, repeats_line
from mst.report.figures import cost, count, percent, percent_interval, seconds
from mst.report.text import names, one_line
from mst.report.words import claim, counts_line, evidence, is_whole, judge_mean, pairwise_line, phases_line, warnings

VERDICT_STYLES = {"better": "bold green", "worse": "bold red", "cannot tell": "bold yellow"}
"""`no difference shown` is plain: it is no event."""

INDENT = 4


def render_summary(run: RunRecord, summary: SummaryRecord, *, report_path: Path | None, console: Console) -> None:
    """Print the summary of a run: colours and rules on a terminal, plain aligned text elsewhere.

    Nothing is wider than the console but the report's path, which is not broken so that it can be copied.

    Args:
        run: the run's record.
        summary: its numbers and verdicts.
        report_path: where the HTML report is; None when there is none.
        console: where to print; it knows about width, colour and `NO_COLOR`.
    """
    _print(
        console, Text(f"{one_line(run.eval_name, limit=60)}  run {short_id(run.run_id)}  {phases_line(run)}", "bold")
    )
    for warning in warnings(run, summary):
        _print(console, Text.assemble(("warning: ", "bold yellow"), warning))
    console.print()
    console.print(_table(summary))
    for variant in summary.variants:
        if (line := repeats_line(variant)) is not None:
            _print(console, Text(line))
    for verdict in summary.verdicts:
        console.print()
        _print_verdict(console, verdict, summary)
    _print_gaps(console, summary)
    if report_path is not None:
        console.print()
        console.print(Text(f"report: {report_path}"), soft_wrap=True)


def _table(summary: SummaryRecord) -> Table:
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="bold underline")
    with_judges = any(judge_mean(variant) is not None for variant in summary.variants)
    table.add_column("variant", overflow="fold")
    for header in ["cases passed", "trial pass rate", *(["judge"] if with_judges else []), "cost", "time/trial"]:
        table.add_column(header, justify="right", no_wrap=True)
    for variant in summary.variants:
        table.add_row(*_cells(variant, is_baseline=variant.name == summary.baseline, with_judges=with_judges))
    return table


def _cells(variant: VariantSummary, *, is_baseline: bool, with_judges: bool) -> list[Text]:
    name = one_line(variant.name, limit=60) + (" (base)" if is_baseline else "")
    rate = f"{percent(variant.pass_rate)} {percent_interval(variant.pass_rate_interval)}".strip()
    mean = judge_mean(variant)
    judge = [f"{mean:.2f}" if mean is not None else "-"] if with_judges else []
    time = seconds(variant.metrics.get("duration_s_mean"))
    passed = f"{variant.result.passed:,} of {variant.result.total:,}"
    return [Text(cell) for cell in [name, passed, rate, *judge, cost(variant.result.total_client_usage), time]]


def _print_verdict(console: Console, verdict: VerdictRecord, summary: SummaryRecord) -> None:
    said = claim(verdict)
    line = Text(f"{said}: {evidence(verdict, candidates=len(summary.verdicts))}")
    # a name may contain the word too, so it is found by its place in the sentence
    start = len(one_line(verdict.candidate, limit=60)) + len(" is ") if verdict.verdict in {"better", "worse"} else 0
    line.stylize(VERDICT_STYLES.get(verdict.verdict, ""), start, start + len(verdict.verdict))
    _print(console, line)
    for note in [*([verdict.reason] if verdict.reason else []), *verdict.notes]:
        _print(console, Text(one_line(note, limit=400)), indent=INDENT)
    if (enough := enough_line(verdict)) is not None:
        _print(console, Text(enough), indent=INDENT)
    _print_flips(console, verdict)
    for variant in summary.variants:
        if variant.name == verdict.candidate:
            for pairwise in variant.pairwise or []:
                _print(console, Text(pairwise_line(pairwise)), indent=INDENT)


def _print_flips(console: Console, verdict: VerdictRecord) -> None:
    regressions = set(verdict.regressions)
    down = [case for case in verdict.flips_down if case not in regressions]
    for label, style, cases in (
        ("regressions", "bold red", verdict.regressions),
        ("down", "red", down),
        ("up", "green", verdict.flips_up),
    ):
        if cases:
            _print(console, Text.assemble((f"{label}: ", style), names(cases)), indent=INDENT)


def _print_gaps(console: Console, summary: SummaryRecord) -> None:
    gaps = [variant for variant in summary.variants if not is_whole(variant.counts)]
    if gaps or summary.grader_errors:
        console.print()
    for variant in gaps:
        _print(console, Text(f"{one_line(variant.name, limit=60)}: {counts_line(variant.counts)}", "yellow"))
    if summary.grader_errors:
        listed = [f"{grader} {errors:,}" for grader, errors in summary.grader_errors.items()]
        total = count(sum(summary.grader_errors.values()), "grading error")
        _print(console, Text(f"{total}, not counted as failures: {names(listed, limit=8)}", "yellow"))


def _print(console: Console, line: Text, *, indent: int = 0) -> None:
    """Print wrapped to the console's width, with following lines indented further."""
    pieces = line.wrap(console, max(20, console.width - indent - INDENT))
    for number, piece in enumerate(pieces):
        piece.rstrip()
        console.print(Text(" " * (indent + (INDENT if number else 0))) + piece, soft_wrap=True)
