"""A list of runs, as a table on a terminal and as JSON."""

from __future__ import annotations

from rich.console import Console
from rich.table import Table
from rich.text import Text

from mst.model.printed.runs import ListedRunRecord, ListedVariant, RunsDocument
from mst.model.summary import VariantSummary
from mst.report.figures import percent
from mst.report.text import one_line
from mst.runs.listed import Listed, ListedRun

SHOWN_VARIANTS = 6
GAP = 2
MAX_WIDTH = 30
MIN_WIDTH = 20
STATE_STYLES = {"complete": "green", "failed": "bold red", "running": "bold cyan"}


def render_list(listed: Listed, console: Console) -> None:
    """Print a row per run, the newest first; nothing is wider than the console."""
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="bold underline")
    for header in ("run", "when (UTC)"):
        table.add_column(header, no_wrap=True)
    table.add_column("eval", overflow="fold", max_width=MAX_WIDTH)
    table.add_column("state", overflow="fold")
    table.add_column("trials passed", overflow="fold")
    before = [_cells(one) for one in listed.runs]
    widths = [max(len(row[number]) for row in before) for number in range(len(before[0]))]
    left = max(MIN_WIDTH, console.width - sum(min(width, MAX_WIDTH) + GAP for width in widths))
    for one, (run, when, name, state) in zip(listed.runs, before, strict=True):
        styled = Text(state, STATE_STYLES.get(one.state, ""))
        table.add_row(run, when, Text(name), styled, Text(_folded(rates(one), left)))
    console.print(table)


def rates(one: ListedRun) -> list[str]:
    """The variants' trial pass rates in short; `-` before anything is graded."""
    shown = [f"{one_line(found.name, limit=40)} {percent(found.pass_rate)}" for found in one.variants[:SHOWN_VARIANTS]]
    more = len(one.variants) - SHOWN_VARIANTS
    return [*shown, *([f"and {more} more"] if more > 0 else [])] or ["-"]


def _cells(one: ListedRun) -> tuple[str, str, str, str]:
    when = one.run.created_at[:16].replace("T", " ")
    state = f"{one.state}, latest" if one.latest else one.state
    return one.short_id, when, one_line(one.run.eval_name, limit=60), state


def _folded(parts: list[str], width: int) -> str:
    """Parts joined by commas, in lines of at most this width; a part is never broken."""
    lines = [parts[0]]
    for part in parts[1:]:
        joined = f"{lines[-1]}, {part}"
        if len(joined) < width:
            lines[-1] = joined
        else:
            lines[-1] += ","
            lines.append(part)
    return "\n".join(lines)


def list_document(listed: Listed) -> RunsDocument:
    """What `mst ls --json` prints; unknown numbers are null."""
    return RunsDocument(
        runs=[_row(one) for one in listed.runs],
        more=listed.more,
        wrong=[str(error) for error in listed.wrong],
    )


def _row(one: ListedRun) -> ListedRunRecord:
    run = one.run
    return ListedRunRecord(
        run_id=run.run_id,
        short_id=one.short_id,
        eval=run.eval_name,
        created_at=run.created_at,
        graded_from=run.graded_from,
        state=one.state,
        phases=run.phases,
        narrowed=run.partial,
        latest=one.latest,
        baseline=run.baseline,
        variants=[_variant(found) for found in one.variants],
        place=one.place,
    )


def _variant(found: VariantSummary) -> ListedVariant:
    return ListedVariant(
        name=found.name,
        pass_rate=found.pass_rate,
        cases_passed=found.result.passed,
        cases=found.result.total,
        scored=found.counts.scored,
        planned=found.counts.planned,
    )
