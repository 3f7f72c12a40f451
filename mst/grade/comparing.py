"""From calls of a pairwise judge to a case's preference: pairing, orders, majorities. Pure."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from mst.grade.combine import case_preference
from mst.grade.contract import Pair
from mst.judges.contract import Subject
from mst.model.case import GraderSpec
from mst.model.score import PairCall, Preference, Side
from mst.providers.spending import total_usage

Order = Literal["baseline_first", "candidate_first"]
Pairing = Literal["index", "last", "all"]


@dataclass(frozen=True, kw_only=True)
class PlannedCall:
    """One call to make."""

    order: Order
    rep: int
    baseline: Subject
    candidate: Subject

    @property
    def key(self) -> tuple[str, int, int, int]:
        """What makes it the same call on a resume."""
        return (self.order, self.rep, self.baseline.record.trial, self.candidate.record.trial)


def call_key(call: PairCall) -> tuple[str, int, int, int]:
    """See `PlannedCall.key`."""
    return (call.order, call.rep, call.baseline_trial, call.candidate_trial)


def pairs_of(pair: Pair, pairing: Pairing = "index") -> list[tuple[Subject, Subject]]:
    """Which trials are compared with which, in the order of their numbers.

    Args:
        pair: the trials of both sides.
        pairing: `index`: those of one number, where both sides have it; `last`: the last of each side; `all`: each
            with each.
    """
    baselines, candidates = _by_number(pair.baseline_trials), _by_number(pair.candidate_trials)
    if pairing == "last":
        return list(zip(baselines[-1:], candidates[-1:], strict=False))
    if pairing == "all":
        return [(baseline, candidate) for baseline in baselines for candidate in candidates]
    numbered = {subject.record.trial: subject for subject in candidates}
    return [(baseline, numbered[baseline.record.trial]) for baseline in baselines if baseline.record.trial in numbered]


def _by_number(trials: Sequence[Subject]) -> list[Subject]:
    return sorted(trials, key=lambda subject: subject.record.trial)


def planned(pairs: Iterable[tuple[Subject, Subject]], spec: GraderSpec, *, deterministic: bool) -> list[PlannedCall]:
    """The calls of a comparison: each pair in both orders, `reps` times each.

    Without `swap` one order only; a deterministic judge is asked once for each pair.
    """
    orders: list[Order] = (
        ["baseline_first"] if deterministic or not spec.swap else ["baseline_first", "candidate_first"]
    )
    reps = 1 if deterministic else spec.reps
    return [
        PlannedCall(order=order, rep=rep, baseline=baseline, candidate=candidate)
        for baseline, candidate in pairs
        for order in orders
        for rep in range(reps)
    ]


def pair_digests(pair: Pair) -> list[str]:
    """Digests of all trials of both sides, baseline first: what a preference was given for."""
    return [subject.digest for subject in (*pair.baseline_trials, *pair.candidate_trials)]


def sides_passed(pair: Pair) -> dict[str, bool | None]:
    """What each side's trials are said to have, keyed `<side>.<trial>`."""
    sides = (("baseline", pair.baseline_trials), ("candidate", pair.candidate_trials))
    return {f"{side}.{subject.record.trial}": subject.passed for side, trials in sides for subject in trials}


def settled(judge: str, spec: GraderSpec, calls: Sequence[PairCall], passed: dict[str, bool | None]) -> Preference:
    """A case's preference from all its calls.

    One failed call makes it a grading error that keeps the finished ones. A pair goes to the side that both orders
    name by strict majority; anything else is a tie that is not consistent. The case goes by the sign of its pairs' sum.
    Strength is the mean over the calls that named the winner.
    """
    common: dict[str, Any] = {
        "judge": judge,
        "pairs": list(calls),
        "sides_passed": passed,
        "version": spec.version,
        "usage": total_usage([call.usage for call in calls if call.judge_duration_ms is not None]),
        "judge_duration_ms": _duration_ms(calls),
    }
    failed = [call for call in calls if call.error is not None]
    if failed:
        error = f"{len(failed)} of {len(calls)} calls failed: {failed[0].error}"
        return Preference(error=error, error_kind=failed[0].error_kind, **common)
    answered = [call for call in calls if call.preference is not None]
    if not answered:
        reasoning = _first(call.reasoning for call in calls) if calls else "no trial that both sides have"
        return Preference(skipped=True, reasoning=reasoning, **common)
    outcome, consistent = decide(calls, {call_key(call): call.preference for call in calls})
    winning = [call for call in answered if call.preference == outcome]
    strengths = [call.strength for call in winning if call.strength is not None]
    return Preference(
        preference=outcome,
        consistent=consistent,
        strength=statistics.fmean(strengths) if strengths and outcome != "tie" else None,
        reasoning=_first(call.reasoning for call in (*winning, *answered)),
        dimensions=_dimensions(calls),
        provider=answered[-1].provider,
        model=answered[-1].model,
        metadata=_first(call.metadata for call in answered),
        **common,
    )


def decide(calls: Sequence[PairCall], sides: dict[tuple[str, int, int, int], Side | None]) -> tuple[Side, bool | None]:
    """The side that a case prefers, and whether all its pairs were consistent (None with one order only).

    Args:
        calls: all calls, for their orders and pairs.
        sides: what each call named, by its key; None for a call that was skipped.
    """
    outcomes: list[tuple[Side, bool | None]] = []
    for pair in dict.fromkeys((call.baseline_trial, call.candidate_trial) for call in calls):
        orders: dict[str, list[Side | None]] = {}
        for call in calls:
            if (call.baseline_trial, call.candidate_trial) == pair:
                orders.setdefault(call.order, []).append(sides.get(call_key(call)))
        outcome = _pair_outcome([majority(each) for each in orders.values()])
        if outcome is not None:
            outcomes.append(outcome)
    flags = [consistent for _, consistent in outcomes if consistent is not None]
    return case_preference(side for side, _ in outcomes), all(flags) if flags else None


def majority(sides: Sequence[Side | None]) -> Side | None:
    """The strict majority of an order's answers, a tie without one; None when all were skipped."""
    named = [side for side in sides if side is not None]
    if not named:
        return None
    best = max(set(named), key=lambda side: (named.count(side), side))
    return best if 2 * named.count(best) > len(named) else "tie"


def _pair_outcome(sides: Sequence[Side | None]) -> tuple[Side, bool | None] | None:
    """What the orders say together: the side, and whether they agree; None when every order was skipped."""
    if all(side is None for side in sides):
        return None
    if len(sides) == 1 and sides[0] is not None:
        return sides[0], None
    first = sides[0]
    if first is not None and all(side == first for side in sides):
        return first, True
    return "tie", False


def _dimensions(calls: Sequence[PairCall]) -> dict[str, Any] | None:
    """Each dimension by the same rule as the whole; the details of single calls stay in `pairs`."""
    names = dict.fromkeys(name for call in calls for name in call.dimensions or {})
    found: dict[str, Any] = {}
    for name in names:
        parts = {call_key(call): (call.dimensions or {}).get(name) for call in calls}
        sides = {key: part.get("preference") if isinstance(part, dict) else None for key, part in parts.items()}
        found[name] = {"preference": decide(calls, sides)[0]}
        if len(calls) == 1:
            found[name] = next(iter(parts.values()))
    return found or None


def _duration_ms(calls: Sequence[PairCall]) -> float | None:
    known = [call.judge_duration_ms for call in calls if call.judge_duration_ms is not None]
    return sum(known) if known else None


def _first(values: Iterable[Any]) -> Any:
    return next((value for value in values if value is not None), None)
