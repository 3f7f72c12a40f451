"""A comment for a pull request: at most 60 lines of GitHub's Markdown, in which no name can link, mention or format."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import BinaryIO

from mst.model.run import RunRecord
from mst.model.summary import SummaryRecord, VariantSummary, VerdictRecord
from mst.report.exports.formats import Asked
from mst.report.figures import cost, count, percent, percent_interval, seconds
from mst.report.text import one_line
from mst.report.view import RunView
from mst.report.words import counts_line, evidence, is_whole, judge_mean, phases_line, warnings

MAX_LINES = 60
MAX_VARIANTS = 12
MAX_VERDICTS = 8
MAX_WARNINGS = 8
MAX_FLIPS = 10
_MARKS = {"better": "🟢", "worse": "🔴", "no difference shown": "⚪", "cannot tell": "🟡"}
_FORMATS = re.compile(r"([\\`*_\[\]!|~])")
_LINKS = re.compile(r"[@#]|(?<=:)//|(?<=www)\.")
"""What GitHub makes a mention, a reference or a link of, escaped or not: an empty comment cuts it."""


def write(view: RunView, out: BinaryIO, asked: Asked) -> None:  # noqa: ARG001 - as every format
    """Write the comment."""
    run, summary = view.run(), view.summary()
    out.write(("\n".join(comment_lines(run, summary)) + "\n").encode("utf-8", errors="replace"))


def comment_lines(run: RunRecord, summary: SummaryRecord) -> list[str]:
    """The comment's lines: what a reader must know, the table, verdicts, cases that changed, where it comes from."""
    lines = [f"### {_title(run, summary)}", "", *_warnings(run, summary), *_table(summary), ""]
    lines += [line for verdict in summary.verdicts[:MAX_VERDICTS] for line in _verdict(verdict, summary)]
    if len(summary.verdicts) > MAX_VERDICTS:
        lines.append(f"- and {count(len(summary.verdicts) - MAX_VERDICTS, 'more candidate')}")
    lines += _gaps(summary)
    foot = ["", *_flips(summary), f"<sub>run {code(run.run_id)}, {phases_line(run)}, mst {run.mst.version}</sub>"]
    return [*lines[: MAX_LINES - len(foot)], *foot]


def code(name: str, *, limit: int = 60, in_table: bool = False) -> str:
    """A name as code: nothing in it is a link, a mention or a format."""
    shown = one_line(name, limit=limit).replace("`", "'")
    if in_table:
        shown = shown.replace("|", "\\|")
    return f"`{shown}`" if shown.strip() else "` `"


def plain(text: str, *, limit: int = 300) -> str:
    """A sentence of ours that may hold names of others, as text and nothing else."""
    escaped = _FORMATS.sub(r"\\\1", one_line(text, limit=limit)).replace("&", "&amp;")
    return _LINKS.sub(r"\g<0><!-- -->", escaped.replace("<", "&lt;").replace(">", "&gt;"))


def _title(run: RunRecord, summary: SummaryRecord) -> str:
    name = code(run.eval_name)
    if len(summary.verdicts) == 1:
        found = summary.verdicts[0]
        return f"{name}: {_MARKS[found.verdict]} {found.verdict}"
    if summary.verdicts:
        words = [word for word in _MARKS if any(found.verdict == word for found in summary.verdicts)]
        counted = ((word, sum(found.verdict == word for found in summary.verdicts)) for word in words)
        return f"{name}: " + ", ".join(f"{_MARKS[word]} {number} {word}" for word, number in counted)
    passed = sum(found.result.passed for found in summary.variants)
    total = sum(found.result.total for found in summary.variants)
    return f"{name}: {passed:,} of {count(total, 'case')} passed"


def _warnings(run: RunRecord, summary: SummaryRecord) -> Iterator[str]:
    found = warnings(run, summary)
    if not found:
        return
    yield "> [!WARNING]"
    for warning in found[:MAX_WARNINGS]:
        yield f"> - {plain(warning)}"
    if len(found) > MAX_WARNINGS:
        yield f"> - and {len(found) - MAX_WARNINGS} more in the report"
    yield ""


def _table(summary: SummaryRecord) -> Iterator[str]:
    with_judges = any(judge_mean(found) is not None for found in summary.variants)
    heads = ["variant", "cases passed", "trial pass rate", *(["judge"] if with_judges else []), "cost", "time a trial"]
    yield f"| {' | '.join(heads)} |"
    yield f"| --- |{' ---: |' * (len(heads) - 1)}"
    for found in summary.variants[:MAX_VARIANTS]:
        yield f"| {' | '.join(_cells(found, summary, with_judges=with_judges))} |"
    if len(summary.variants) > MAX_VARIANTS:
        yield f"| and {len(summary.variants) - MAX_VARIANTS} more |{' |' * (len(heads) - 1)}"


def _cells(found: VariantSummary, summary: SummaryRecord, *, with_judges: bool) -> Iterator[str]:
    yield code(found.name, in_table=True) + (
        " (baseline)" if found.name == summary.baseline and len(summary.variants) > 1 else ""
    )
    yield f"{found.result.passed:,} of {found.result.total:,}"
    yield f"{percent(found.pass_rate)} {percent_interval(found.pass_rate_interval)}".strip()
    if with_judges:
        mean = judge_mean(found)
        yield "-" if mean is None else f"{mean:.2f}"
    yield cost(found.result.total_client_usage).replace("~", "\\~")
    yield seconds(found.metrics.get("duration_s_mean"))


def _verdict(verdict: VerdictRecord, summary: SummaryRecord) -> Iterator[str]:
    numbers = plain(evidence(verdict, candidates=len(summary.verdicts)))
    names = f"{code(verdict.candidate)} against {code(verdict.baseline)}"
    yield f"- {_MARKS[verdict.verdict]} **{verdict.verdict}**: {names}: {numbers}"
    if verdict.reason:
        yield f"  - why: {plain(verdict.reason)}"
    if verdict.regressions:
        yield f"  - ⚠️ **regressions**: {_listed(verdict.regressions)}"


def _gaps(summary: SummaryRecord) -> Iterator[str]:
    for found in summary.variants[:MAX_VARIANTS]:
        if not is_whole(found.counts):
            yield f"- {code(found.name)}: {counts_line(found.counts)}"


def _flips(summary: SummaryRecord) -> Iterator[str]:
    """Cases that went up and down, folded away; never more than a line a candidate and direction."""
    changed = [found for found in summary.verdicts if found.flips_up or found.flips_down][: MAX_VERDICTS // 2]
    if not changed:
        return
    yield "<details><summary>Cases that changed</summary>"
    yield ""
    for found in changed:
        if found.flips_down:
            yield f"- {code(found.candidate)} down: {_listed(found.flips_down)}"
        if found.flips_up:
            yield f"- {code(found.candidate)} up: {_listed(found.flips_up)}"
    yield ""
    yield "</details>"
    yield ""


def _listed(cases: list[str]) -> str:
    shown = ", ".join(code(case, limit=80) for case in cases[:MAX_FLIPS])
    return shown if len(cases) <= MAX_FLIPS else f"{shown} and {len(cases) - MAX_FLIPS:,} more"
