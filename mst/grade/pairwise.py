"""Asking a pairwise judge about a pair of trials: every planned call once, finished ones of before not again."""

from __future__ import annotations

import time

from pydantic import ValidationError

from mst.errors import GraderError, InvariantError
from mst.grade.caller import Caller, bounded, kind_of, storable, why
from mst.grade.comparing import PlannedCall, call_key, pairs_of, planned, settled, sides_passed
from mst.grade.contract import Grader, Pair
from mst.grade.redaction import redacted
from mst.judges.contract import Choice, PairwiseJudge
from mst.judges.verdict import first_fault
from mst.judges.view import not_asked, unmet
from mst.model.score import ComparisonGrading, PairCall, Preference


async def prefer(caller: Caller, grader: Grader, pair: Pair, earlier: ComparisonGrading | None) -> Preference:
    """One judge's preference on one case. Its faults are a preference with `error`, finished calls kept.

    Args:
        caller: prepares the judge.
        grader: the judge.
        pair: both sides; only trials that both have are compared.
        earlier: a grading for the same trials, whose verdict or finished calls are taken over when it is of the same
            judge and was told the same of the sides.
    """
    passed = sides_passed(pair)
    known = _same(grader, earlier, passed)
    if known is not None and known.is_verdict:
        return known
    try:
        judge: PairwiseJudge = caller.prepared(grader)
        calls = planned(pairs_of(pair, grader.spec.pairing), grader.spec, deterministic=judge.deterministic)
    except InvariantError:
        raise
    except Exception as error:  # noqa: BLE001 - a plugin's code may raise anything
        return Preference(judge=grader.name, error=caller.redactor.text(why(error)), sides_passed=passed)
    finished = {call_key(call): call for call in (known.pairs if known is not None else None) or [] if not call.error}
    made = []
    for call in calls:
        done = finished.get(call.key)
        made.append(done or redacted(await _call(caller, grader, judge, call), caller.redactor))
    return settled(grader.name, grader.spec, made, passed)


async def _call(caller: Caller, grader: Grader, judge: PairwiseJudge, plan: PlannedCall) -> PairCall:
    call = PairCall(
        order=plan.order,
        rep=plan.rep,
        baseline_trial=plan.baseline.record.trial,
        candidate_trial=plan.candidate.record.trial,
    )
    if (reason := caller.breaker.stopped(grader)) is not None:
        return call.model_copy(update={"error": reason, "error_kind": "stopped"})
    started = time.perf_counter()
    try:
        requires = grader.spec.requires
        missing = unmet(requires, plan.baseline) or unmet(requires, plan.candidate)
        if missing:
            return call.model_copy(update={"skipped": True, "reasoning": not_asked(missing)})
        context = caller.context(grader.spec)
        candidate_first = plan.order == "candidate_first"
        asked = judge.compare(plan.baseline, plan.candidate, context, candidate_first=candidate_first)
        made = storable(with_choice(call, await bounded(judge, asked, context.timeout_s)))
        caller.breaker.answered(grader)
    except InvariantError:
        raise
    except Exception as error:  # noqa: BLE001 - a plugin's code may raise anything
        kind = kind_of(error)
        await caller.breaker.failed(grader, kind, why(error))
        made = call.model_copy(update={"error": why(error), "error_kind": None if kind == "grader" else kind})
    return made.model_copy(update={"judge_duration_ms": (time.perf_counter() - started) * 1000})


def with_choice(call: PairCall, choice: Choice) -> PairCall:
    """A call with its answer.

    Raises:
        GraderError: the answer names no side, or something in it is out of range.
    """
    if choice.preference is None and not choice.skipped:
        raise GraderError("the judge named neither a side nor a tie")
    strength = choice.strength
    if strength is not None and not 0 <= strength <= 1:
        raise GraderError(f"the judge's strength {strength!r} is not between 0 and 1")
    answer = {
        "preference": None if choice.skipped else choice.preference,
        "skipped": choice.skipped or None,
        "strength": None if choice.skipped else strength,
        "reasoning": choice.reasoning,
        "dimensions": choice.dimensions,
        "usage": choice.usage,
        "provider": choice.provider,
        "model": choice.model,
        "metadata": choice.metadata,
    }
    try:
        return PairCall.model_validate({**call.model_dump(by_alias=False), **answer})
    except ValidationError as error:
        raise GraderError(f"the judge's answer is not usable: {first_fault(error)}") from error


def _same(grader: Grader, earlier: ComparisonGrading | None, passed: dict[str, bool | None]) -> Preference | None:
    """The earlier preference, when it is of the same judge and was told the same."""
    if earlier is None or earlier.identities.get(grader.name) != grader.identity:
        return None
    found = earlier.preferences.get(grader.name)
    return found if found is not None and found.sides_passed == passed else None
