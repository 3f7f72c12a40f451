"""Two runs held against each other, in words: on a terminal, and as one JSON document."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Console
from rich.table import Table
from rich.text import Text

from mst.model.comparison import (
    Change,
    ComparedRun,
    ComparedSide,
    ComparedVariant,
    DecisionChange,
    RunComparison,
    TrialFlips,
)
from mst.model.keys import short_id
from mst.model.printed.outcome import ComparisonDocument
from mst.model.summary import VerdictRecord
from mst.report.changes import change_words, changes
from mst.report.console import INDENT, say, say_verdict
from mst.report.figures import count, percent, percent_interval, points
from mst.report.gates import GateOutcome
from mst.report.summary_json import gate_record
from mst.report.text import names, one_line
from mst.runs.compare import compare_runs
from mst.runs.folder import RunFolder

MAX_CHANGES = 20
NOTHING_CHANGED = (
    "nothing that was recorded: cases, graders and settings are the same, so a difference is chance, or something that "
    "no record holds (a program or a model that changed behind its name)"
)


def compared(first: RunFolder, second: RunFolder) -> RunComparison:
    """The second run held against the first, with what changed between them. Raises as `compare_runs` does."""
    found = compare_runs(first, second)
    return found.model_copy(update={"changes": changes(first.run(), second.run(), found.cases)})


def comparison_document(found: RunComparison, gate: GateOutcome) -> ComparisonDocument:
    """What `mst compare --json` prints; unknown numbers are null."""
    return ComparisonDocument(**dict(found), gate=gate_record(gate))


def render_comparison(found: RunComparison, console: Console) -> None:
    """Print a comparison; nothing is wider than the console."""
    for label, run in (("first ", found.first), ("second", found.second)):
        say(console, Text.assemble((f"{label}  ", "bold"), _run_line(run)))
    for warning in comparison_warnings(found):
        say(console, Text.assemble(("warning: ", "bold yellow"), warning))
    console.print()
    say(console, Text("what changed", "bold"))
    for line in change_lines(found):
        say(console, Text(line), indent=INDENT)
    console.print()
    for line in case_lines(found):
        say(console, Text(line))
    console.print()
    console.print(_table(found))
    for variant in found.variants:
        console.print()
        if variant.verdict is not None and not _is_level(variant.verdict):
            say_verdict(console, variant.verdict, candidates=len(found.variants))
        elif variant.verdict is not None:
            level = count(variant.verdict.cases_compared, "compared case")
            say(console, Text(f"{one_line(variant.name, limit=60)}: all of {level} came out the same, so cannot tell"))
        if variant.flips is not None:
            _say_trial_flips(console, variant.name, variant.flips)
    _say_decisions(console, found)


def comparison_warnings(found: RunComparison) -> list[str]:
    """What a reader must know before any number."""
    warnings = []
    if found.same_trials:
        warnings.append(
            "These are two gradings of the same trials: what differs is what graders said, not what programs did, "
            "so there is no verdict."
        )
    elif found.first.eval_name != found.second.eval_name:
        warnings.append("These are runs of two different evals.")
    for word, run in (("first", found.first), ("second", found.second)):
        unfinished = [name for name in ("collect", "grade") if getattr(run.phases, name) in {"partial", "failed"}]
        if unfinished:
            warnings.append(f"The {word} run's {' and '.join(unfinished)} phase is not complete.")
        if run.narrowed:
            warnings.append(f"The {word} run was narrowed to some cases or variants.")
    return warnings


def change_lines(found: RunComparison) -> list[str]:
    """What changed, a line each, at most `MAX_CHANGES`."""
    told = _together(found.changes)
    lines = [change_words(change) for change in told[:MAX_CHANGES]]
    if len(told) > MAX_CHANGES:
        lines.append(f"and {len(told) - MAX_CHANGES} more (--json lists all)")
    return lines or [NOTHING_CHANGED]


def _together(changes: Sequence[Change]) -> list[Change]:
    """What changed alike in several variants, told once."""
    alike: dict[tuple[str | None, ...], list[Change]] = {}
    for number, change in enumerate(changes):
        key = (change.what, change.before, change.after) if change.kind == "variant" else (str(number),)
        alike.setdefault(key, []).append(change)
    return [
        group[0] if len(group) == 1 else group[0].model_copy(update={"name": names([one.name for one in group])})
        for group in alike.values()
    ]


def case_lines(found: RunComparison) -> list[str]:
    """Which cases and variants were compared, and which have no counterpart."""
    cases = found.cases
    lines = [f"{count(cases.matched, 'case')} compared"]
    if cases.changed and not found.same_trials:
        lines.append(f"not compared, content changed: {count(len(cases.changed), 'case')} ({names(cases.changed)})")
    for word, ids in (("first", cases.first_only), ("second", cases.second_only)):
        if ids:
            lines.append(f"only in the {word}: {count(len(ids), 'case')} ({names(ids)})")
    for word, variants in (("first", found.variants_first_only), ("second", found.variants_second_only)):
        if variants:
            lines.append(f"only in the {word}: {count(len(variants), 'variant')} ({names(variants)})")
    return lines


def decision_line(found: DecisionChange) -> str:
    """What each of the two says about a candidate."""
    candidate = one_line(found.candidate, limit=60)
    first, second = one_line(found.first_baseline, limit=60), one_line(found.second_baseline, limit=60)
    if first == second:
        said = f"{found.first} in both" if found.first == found.second else f"{found.first} -> {found.second}"
        return f"{candidate} against {first}: {said}"
    return f"{candidate}: {found.first} against {first} -> {found.second} against {second}"


def _run_line(run: ComparedRun) -> str:
    graded = f", a grading of {short_id(run.graded_from)}" if run.graded_from is not None else ""
    return (
        f"{short_id(run.run_id)}  {one_line(run.eval_name, limit=60)}, {run.created_at[:16].replace('T', ' ')}{graded}"
    )


def _table(found: RunComparison) -> Table:
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="bold underline")
    table.add_column("variant", overflow="fold")
    for header in (f"first {short_id(found.first.run_id)}", f"second {short_id(found.second.run_id)}", "change"):
        table.add_column(header, justify="right", no_wrap=True)
    for variant in found.variants:
        cells = [one_line(variant.name, limit=60), _rate(variant.first), _rate(variant.second), _change(variant)]
        table.add_row(*map(Text, cells))
    return table


def _rate(side: ComparedSide) -> str:
    lacking = "*" if side.scored < side.planned else ""
    return f"{percent(side.pass_rate)} {percent_interval(side.pass_rate_interval)}".strip() + lacking


def _change(variant: ComparedVariant) -> str:
    if variant.first.pass_rate is None or variant.second.pass_rate is None:
        return points(None)
    return points(variant.second.pass_rate - variant.first.pass_rate).removesuffix(" points")


def _is_level(verdict: VerdictRecord) -> bool:
    """Whether not one compared case differs."""
    return verdict.difference == 0 and not (verdict.flips_up or verdict.flips_down or verdict.held_out)


def _say_trial_flips(console: Console, name: str, flips: TrialFlips) -> None:
    parts = [
        f"{number:,} {word}"
        for number, word in (
            (flips.up, "now pass"),
            (flips.down, "now fail"),
            (flips.gained, "have a result that had none"),
            (flips.lost, "have none any more"),
        )
        if number
    ]
    said = ", ".join(parts) if parts else "all came out the same"
    say(console, Text(f"{one_line(name, limit=60)}: of {count(flips.trials, 'trial')} {said}"))
    for label, style, cases in (("down", "red", flips.cases_down), ("up", "green", flips.cases_up)):
        if cases:
            say(console, Text.assemble((f"{label}: ", style), names(cases)), indent=INDENT)


def _say_decisions(console: Console, found: RunComparison) -> None:
    lacking = [
        variant
        for variant in found.variants
        if variant.first.scored < variant.first.planned or variant.second.scored < variant.second.planned
    ]
    if lacking:
        console.print()
        say(console, Text("* some trials have no score and are left out of the rate", "yellow"))
    if found.decisions:
        console.print()
        say(console, Text("verdicts inside each of the two", "bold"))
        for decision in found.decisions:
            say(console, Text(decision_line(decision)), indent=INDENT)
    if found.same_trials:
        console.print()
        source = short_id(found.first.graded_from or found.first.run_id)
        say(console, Text(f"grader by grader: mst show {source} --grade-sets"))
