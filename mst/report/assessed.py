"""What `mst judges assess` found, on a terminal: what is wrong first, then what was counted, judge by judge."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby

from rich.console import Console
from rich.text import Text

from mst.grade.assess import Assessment
from mst.report.console import INDENT, say
from mst.report.figures import count, p_value

NOTHING = "nothing was found against these judges; that is no proof that they are right"
CHANGED = {"length": "said at twice the length", "self_preference": "signed with the judge's own name, not another"}
"""What was done to answers, by probe."""


def render_assessments(found: Sequence[Assessment], console: Console) -> None:
    """Print all of it, wrapped to the console's width."""
    named = [one for one in found if one.finding is not None]
    for one in named:
        say(console, Text.assemble((one.grader, "bold yellow"), f" {one.finding}"))
    if not named:
        say(console, Text(NOTHING))
    for grader, probes in groupby(found, key=lambda one: one.grader):
        console.print()
        say(console, Text(grader, "bold"))
        for one in probes:
            say(console, Text(counted(one)), indent=INDENT)


def counted(one: Assessment) -> str:
    """What one probe counted, in a sentence."""
    label = one.probe.replace("_", "-")
    lost = f"; {count(one.errors, 'call')} gave no answer" if one.errors else ""
    if not one.n:
        return f"{label}: nothing was answered{lost}"
    said = {"stability": _stability, "order": _order, "empty": _empty}.get(one.probe, _changed)
    return f"{label}: {said(one)}{lost}"


def _stability(one: Assessment) -> str:
    spread = one.figures.get("scoreStdDev")
    tail = "" if spread is None else f", scores spread by {spread:.2f} (standard deviation)"
    return f"asked the same again, {one.n - _whole(one, 'changed')} of {count(one.n, 'verdict')} stayed{tail}"


def _order(one: Assessment) -> str:
    first, second, tie = (_whole(one, name) for name in ("first", "second", "tie"))
    return (
        f"an answer beside itself: {tie} of {one.n} times a tie, {first} the first, {second} the second "
        f"({p_value(one.figures['p'])})"
    )


def _empty(one: Assessment) -> str:
    return f"{_whole(one, 'passed')} of {count(one.n, 'empty answer')} passed"


def _changed(one: Assessment) -> str:
    what, p = CHANGED.get(one.probe, one.probe), p_value(one.figures["p"])
    if "won" in one.figures:
        won, lost, tie = (_whole(one, name) for name in ("won", "lost", "tie"))
        return (
            f"the same answer {what}: preferred in {won} of {count(one.n, 'pair')}, not in {lost}, tied in {tie} ({p})"
        )
    up, down, shift = _whole(one, "up"), _whole(one, "down"), one.figures.get("meanShift")
    mean = "" if shift is None else f", {shift:+.2f} on average"
    return f"the same answer {what}: higher in {up} of {count(one.n, 'score')}, lower in {down}{mean} ({p})"


def _whole(one: Assessment, name: str) -> int:
    return int(one.figures.get(name) or 0)
