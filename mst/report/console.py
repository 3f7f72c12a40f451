"""Lines and verdicts on a terminal, wrapped to its width; what the summary and comparisons print alike."""

from __future__ import annotations

from rich.console import Console
from rich.text import Text

from mst.model.summary import VerdictRecord
from mst.report.beside import enough_line
from mst.report.text import names, one_line
from mst.report.words import claim, evidence, interval_note

VERDICT_STYLES = {"better": "bold green", "worse": "bold red", "cannot tell": "bold yellow"}
"""`no difference shown` is plain: it is no event."""

INDENT = 4


def say(console: Console, line: Text, *, indent: int = 0) -> None:
    """Print wrapped to the console's width, with following lines indented further."""
    pieces = line.wrap(console, max(20, console.width - indent - INDENT))
    for number, piece in enumerate(pieces):
        piece.rstrip()
        console.print(Text(" " * (indent + (INDENT if number else 0))) + piece, soft_wrap=True)


def say_verdict(console: Console, verdict: VerdictRecord, *, candidates: int) -> None:
    """Print a verdict: the sentence with its numbers, why, what would be enough data, and the cases that flipped."""
    said = claim(verdict)
    line = Text(f"{said}: {evidence(verdict, candidates=candidates)}")
    # a name may contain the word too, so it is found by its place in the sentence
    start = len(one_line(verdict.candidate, limit=60)) + len(" is ") if verdict.verdict in {"better", "worse"} else 0
    line.stylize(VERDICT_STYLES.get(verdict.verdict, ""), start, start + len(verdict.verdict))
    say(console, line)
    for note in [verdict.reason, interval_note(verdict), *verdict.notes]:
        if note:
            say(console, Text(one_line(note, limit=400)), indent=INDENT)
    if (enough := enough_line(verdict)) is not None:
        say(console, Text(enough), indent=INDENT)
    _say_flips(console, verdict)


def _say_flips(console: Console, verdict: VerdictRecord) -> None:
    regressions = set(verdict.regressions)
    down = [case for case in verdict.flips_down if case not in regressions]
    for label, style, cases in (
        ("regressions", "bold red", verdict.regressions),
        ("down", "red", down),
        ("up", "green", verdict.flips_up),
    ):
        if cases:
            say(console, Text.assemble((f"{label}: ", style), names(cases)), indent=INDENT)
