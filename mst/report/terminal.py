"""The summary on the terminal: a row per variant, a line per comparison, what is missing, and where the report is."""

from __future__ import annotations

from pathlib import Path

from rich.cells import cell_len
from rich.console import Console
from rich.table import Table
from rich.text import Text

from mst.model.keys import short_id
from mst.model.run import RunRecord
from mst.model.summary import SummaryRecord, VariantSummary, VerdictRecord
from mst.report.beside import repeats_line
from mst.report.console import INDENT, say, say_verdict
from mst.report.failures import Excerpt
from mst.report.figures import cost, count, percent, percent_interval, seconds
from mst.report.text import names, one_line
from mst.report.words import counts_line, is_whole, judge_mean, pairwise_line, phases_line, warnings


def render_summary(
    run: RunRecord,
    summary: SummaryRecord,
    *,
    report_path: Path | None,
    console: Console,
    broken: Excerpt | None = None,
) -> None:
    """Print the summary of a run: colours and rules on a terminal, plain aligned text elsewhere.

    Nothing is wider than the console but the report's path, which is not broken so that it can be copied.

    Args:
        run: the run's record.
        summary: its numbers and verdicts.
        report_path: where the HTML report is; None when there is none.
        console: where to print; it knows about width, colour and `NO_COLOR`.
        broken: a trial that broke down, as an example; None when there is none.
    """
    say(console, Text(f"{one_line(run.eval_name, limit=60)}  run {short_id(run.run_id)}  {phases_line(run)}", "bold"))
    for warning in warnings(run, summary):
        say(console, Text.assemble(("warning: ", "bold yellow"), warning))
    console.print()
    _print_variants(console, summary)
    for variant in summary.variants:
        if (line := repeats_line(variant)) is not None:
            say(console, Text(line))
    for verdict in summary.verdicts:
        console.print()
        say_verdict(console, verdict, candidates=len(summary.verdicts))
        _print_pairwise(console, verdict, summary)
    _print_gaps(console, summary)
    if broken is not None:
        said = f"e.g. {broken.variant}, {broken.case_id}, trial {broken.trial}: {broken.text}"
        say(console, Text(said, "yellow"), indent=INDENT)
        say(console, Text(f"all reasons, and what to do: mst diagnose {short_id(run.run_id)}"), indent=INDENT)
    if report_path is not None:
        console.print()
        console.print(Text(f"report: {report_path}"), soft_wrap=True)


GAP = 2
NAME_WIDTH = 16
"""A variant's name is folded to no less than this; where the numbers leave less room, they follow it in a sentence."""


def _print_variants(console: Console, summary: SummaryRecord) -> None:
    """A row for each variant, or in a narrow terminal a paragraph."""
    with_judges = any(judge_mean(variant) is not None for variant in summary.variants)
    headers = ["cases passed", "trial pass rate", *(["judge"] if with_judges else []), "cost", "time/trial"]
    rows = [
        _cells(variant, is_baseline=variant.name == summary.baseline, with_judges=with_judges)
        for variant in summary.variants
    ]
    columns = list(zip(["variant", *headers], *rows, strict=True))
    named, *others = [max(map(cell_len, column)) for column in columns]
    if console.width - sum(width + GAP for width in others) >= min(named, NAME_WIDTH):
        console.print(_table(headers, rows))
        return
    for name, *cells in rows:
        figures = ", ".join(f"{header} {cell}" for header, cell in zip(headers, cells, strict=True))
        say(console, Text.assemble((name, "bold"), f": {figures}"))


def _table(headers: list[str], rows: list[list[str]]) -> Table:
    table = Table(box=None, pad_edge=False, padding=(0, GAP, 0, 0), header_style="bold underline")
    table.add_column("variant", overflow="fold")
    for header in headers:
        table.add_column(header, justify="right", no_wrap=True)
    for row in rows:
        table.add_row(*map(Text, row))
    return table


def _cells(variant: VariantSummary, *, is_baseline: bool, with_judges: bool) -> list[str]:
    name = one_line(variant.name, limit=60) + (" (base)" if is_baseline else "")
    rate = f"{percent(variant.pass_rate)} {percent_interval(variant.pass_rate_interval)}".strip()
    mean = judge_mean(variant)
    judge = [f"{mean:.2f}" if mean is not None else "-"] if with_judges else []
    time = seconds(variant.metrics.get("duration_s_mean"))
    passed = f"{variant.result.passed:,} of {variant.result.total:,}"
    return [name, passed, rate, *judge, cost(variant.result.total_client_usage), time]


def _print_pairwise(console: Console, verdict: VerdictRecord, summary: SummaryRecord) -> None:
    for variant in summary.variants:
        if variant.name == verdict.candidate:
            for pairwise in variant.pairwise or []:
                say(console, Text(pairwise_line(pairwise)), indent=INDENT)


def _print_gaps(console: Console, summary: SummaryRecord) -> None:
    gaps = [variant for variant in summary.variants if not is_whole(variant.counts)]
    if gaps or summary.grader_errors:
        console.print()
    for variant in gaps:
        say(console, Text(f"{one_line(variant.name, limit=60)}: {counts_line(variant.counts)}", "yellow"))
    if summary.grader_errors:
        listed = [f"{grader} {errors:,}" for grader, errors in summary.grader_errors.items()]
        total = count(sum(summary.grader_errors.values()), "grading error")
        say(console, Text(f"{total}, not counted as failures: {names(listed, limit=8)}", "yellow"))
