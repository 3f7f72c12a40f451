"""When a result fails the command: the conditions of `--fail-on`, and which exit code wins."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal, get_args

from mst.errors import InvariantError, UsageError
from mst.model.comparison import RunComparison
from mst.model.run import Phases
from mst.model.summary import SummaryRecord, VerdictRecord
from mst.report.figures import count
from mst.report.text import names, one_line

Condition = Literal["any-failure", "worse", "regression", "not-better", "cannot-tell", "never"]
CONDITIONS: tuple[Condition, ...] = get_args(Condition)

PRECEDENCE = (130, 2, 5, 4, 3, 1, 0)
"""Exit codes from the strongest to the weakest: an interruption, then what the user must mend first."""


@dataclass(frozen=True, slots=True)
class GateOutcome:
    """Whether the gate failed, under which conditions, and a sentence for each reason."""

    conditions: tuple[Condition, ...]
    failed: bool
    reasons: tuple[str, ...]


def parse_conditions(values: Iterable[str]) -> tuple[Condition, ...]:
    """The conditions of `--fail-on`, which may be given several times and with commas.

    Raises:
        UsageError: an unknown condition, or `never` beside others.
    """
    asked = [part.strip() for value in values for part in value.split(",") if part.strip()]
    found: list[Condition] = []
    for name in asked:
        match = next((condition for condition in CONDITIONS if condition == name), None)
        if match is None:
            raise UsageError(f"--fail-on: {name!r} is not one of {', '.join(CONDITIONS)}")
        if match not in found:
            found.append(match)
    if "never" in found and len(found) > 1:
        raise UsageError("--fail-on: never stands alone")
    return tuple(found)


def default_conditions(variants: int) -> tuple[Condition, ...]:
    """The gate when nobody asked for one: any failure with one variant, worse or a regression with several."""
    return ("any-failure",) if variants <= 1 else ("worse", "regression")


def gate(summary: SummaryRecord, conditions: Sequence[Condition] = ()) -> GateOutcome:
    """Judge a summary. A run that was only collected passes: there is nothing to judge yet.

    Args:
        summary: of the run.
        conditions: any of them fails the gate; empty means the default for the number of variants.
    """
    asked = tuple(conditions) or default_conditions(len(summary.variants))
    if summary.graded is False or "never" in asked:
        return GateOutcome(conditions=asked, failed=False, reasons=())
    reasons = tuple(reason for condition in asked for reason in _reasons(summary, condition))
    return GateOutcome(conditions=asked, failed=bool(reasons), reasons=reasons)


def gate_comparison(found: RunComparison, conditions: Sequence[Condition]) -> GateOutcome:
    """Judge how a second run compares with a first. Without a condition it passes.

    Raises:
        UsageError: a condition that asks about one run, or both are gradings of the same trials, which get no verdict.
    """
    asked = tuple(conditions) or ("never",)
    if "any-failure" in asked:
        raise UsageError("--fail-on any-failure asks about one run: use 'mst show RUN --fail-on any-failure'")
    if found.same_trials and asked != ("never",):
        raise UsageError("--fail-on: these are two gradings of the same trials, which get no verdict")
    verdicts = [variant.verdict for variant in found.variants if variant.verdict is not None]
    one_trial = all(
        side.planned <= found.cases.matched for variant in found.variants for side in (variant.first, variant.second)
    )
    reasons = tuple(
        reason for condition in asked for reason in _verdict_reasons(verdicts, condition, one_trial=one_trial)
    )
    return GateOutcome(conditions=asked, failed=bool(reasons), reasons=reasons)


def outcome_codes(phases: Phases, outcome: GateOutcome) -> list[int]:
    """Exit codes that a finished run calls for by itself: 4 for a failed phase, 3 for a partial one, 1 for the gate."""
    states = {phases.collect, phases.grade}
    codes = [4] if "failed" in states else []
    codes += [3] if "partial" in states else []
    return [*codes, *([1] if outcome.failed else [])]


def exit_code(codes: Iterable[int]) -> int:
    """The one code to end with, by precedence 130, 2, 5, 4, 3, 1, 0; no code at all is 0.

    Raises:
        InvariantError: a code that does not exist.
    """
    found = set(codes)
    if unknown := found - set(PRECEDENCE):
        raise InvariantError(f"no such exit code: {sorted(unknown)}")
    return next((code for code in PRECEDENCE if code in found), 0)


def _reasons(summary: SummaryRecord, condition: Condition) -> list[str]:
    if condition == "any-failure":
        return _failures(summary)
    if condition in {"not-better", "cannot-tell"}:
        candidates = [variant.name for variant in summary.variants if variant.name != summary.baseline]
        return _unproven(summary.verdicts, candidates, condition)
    one_trial = all(variant.counts.planned <= variant.result.total for variant in summary.variants)
    return _verdict_reasons(summary.verdicts, condition, one_trial=one_trial)


def _verdict_reasons(verdicts: Sequence[VerdictRecord], condition: Condition, *, one_trial: bool) -> list[str]:
    if condition == "regression":
        return [
            f"regression: {one_line(candidate)} breaks {count(len(broken), 'regression case')} ({names(broken)})"
            for candidate, broken in _regressions(verdicts, one_trial=one_trial).items()
        ]
    if condition == "worse":
        return [
            f"worse: {one_line(verdict.candidate)} is worse than {one_line(verdict.baseline)}"
            for verdict in verdicts
            if verdict.verdict == "worse"
        ]
    if condition == "never":
        return []
    return _unproven(verdicts, [verdict.candidate for verdict in verdicts], condition)


def _regressions(verdicts: Sequence[VerdictRecord], *, one_trial: bool) -> dict[str, list[str]]:
    """Broken regression cases by candidate: flips when each case has one trial, those shown by the test otherwise."""
    found = {verdict.candidate: verdict.regressions if one_trial else verdict.regressions_shown for verdict in verdicts}
    return {candidate: broken for candidate, broken in found.items() if broken}


def _failures(summary: SummaryRecord) -> list[str]:
    """Failed cases; and a run without one scored case has not passed either."""
    found = [
        f"any-failure: {one_line(variant.name)} failed {variant.result.failed:,} of "
        f"{count(variant.result.total, 'case')}"
        for variant in summary.variants
        if variant.result.failed
    ]
    if not found and not any(variant.counts.scored for variant in summary.variants):
        return ["any-failure: nothing was scored, so nothing passed"]
    return found


def _unproven(verdicts: Sequence[VerdictRecord], candidates: Sequence[str], condition: Condition) -> list[str]:
    """`not-better` and `cannot-tell` ask for proof: a candidate without any verdict does not give it."""
    words = {verdict.candidate: verdict.verdict for verdict in verdicts}
    found = []
    for candidate in candidates:
        word = words.get(candidate, "cannot tell")
        if (condition == "not-better" and word != "better") or (condition == "cannot-tell" and word == "cannot tell"):
            found.append(f"{condition}: {one_line(candidate)} - {word}")
    return found or ([] if candidates else [f"{condition}: there is no candidate to compare with the baseline"])
