"""Asking judges about themselves: the same question again, and questions whose right answer is known."""

from __future__ import annotations

import asyncio
import statistics
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from mst.grade.contract import Grader, GradingSource, Pair
from mst.judges.contract import Subject
from mst.judges.probes import Probe, probe
from mst.model.base import Model
from mst.model.keys import ComparisonKey, TrialKey
from mst.model.score import GraderScore, PairCall, Side
from mst.process.together import together
from mst.stats.preferences import stability
from mst.stats.special import coin_two_sided_p

LEVEL = 0.01
"""Of each test."""
ENOUGH = 8
"""Answers below which no share is called one."""
STEADY = 0.9
"""Share of questions that a judge should answer alike every time."""
SAME_LEVEL = 0.2
"""Share of identical pairs in which a judge may name a winner."""
NEUTRAL_NAME = "this assistant"
LONGER_SCORE = "prefers long answers: words that say nothing raised the score"
OWN_SCORE = "prefers answers under its own name: the name raised the score"
LONGER_WINS = "prefers long answers: it takes the same answer with words that say nothing"
OWN_WINS = "prefers answers under its own name: it takes the same answer signed so"


class Assessment(Model):
    """What was found about one judge.

    Attributes:
        grader: its name.
        probe: `stability`, `order`, `length`, `self_preference`, `empty`.
        n: questions that were answered.
        errors: calls that gave no answer.
        figures: what was counted.
        finding: what is wrong with the judge, in a sentence; None when nothing was found.
    """

    grader: str
    probe: str
    n: int
    errors: int
    figures: dict[str, float | int | None]
    finding: str | None = None


class Assessor:
    """Asks judges through a live source, `concurrency` questions at a time. Verdicts are not stored.

    Args:
        source: live, without earlier verdicts.
        concurrency: questions at a time.
        answered: told of each question, answered or not, by whom.
    """

    def __init__(
        self, source: GradingSource, *, concurrency: int = 4, answered: Callable[[Grader], None] = lambda _judge: None
    ) -> None:
        self._source = source
        self._answered = answered
        self._room = asyncio.Semaphore(max(1, concurrency))

    async def stability(self, judge: Grader, subjects: Sequence[Subject], times: int) -> Assessment:
        """The same answers again: does the judge repeat itself?"""
        asked = await self._scores(judge, [subject for subject in subjects for _ in range(times)])
        groups = [asked[start : start + times] for start in range(0, len(asked), times)]
        return _steady(judge.name, [[score.passed for score in group if score.counts] for group in groups],
                       spreads=[_spread(group) for group in groups], errors=_errors(asked))  # fmt: skip

    async def pair_stability(self, judge: Grader, pairs: Sequence[Pair], times: int) -> Assessment:
        """The same pairs in the same order again."""
        asked = await self._calls(judge, [pair for pair in pairs for _ in range(times)])
        answers: list[list[str]] = []
        for start in range(0, len(asked), times):
            by_call: dict[tuple[str, int, int, int], list[str]] = {}
            for call in (call for calls in asked[start : start + times] for call in calls):
                if call.preference is not None:
                    key = (call.order, call.rep, call.baseline_trial, call.candidate_trial)
                    by_call.setdefault(key, []).append(call.preference)
            answers += by_call.values()
        errors = sum(call.error is not None for calls in asked for call in calls)
        return _steady(judge.name, answers, spreads=[], errors=errors)

    async def bias(self, judge: Grader, subjects: Sequence[Subject]) -> list[Assessment]:
        """The same answers made longer, signed, and taken away: does the judge go by what should not matter?"""
        name = _own_name(judge)
        plain = await self._probed(judge, subjects, "plain", name)
        longer = await self._probed(judge, subjects, "longer", name)
        own = await self._probed(judge, subjects, "own_name", name)
        other = await self._probed(judge, subjects, "other_name", name)
        empty = await self._probed(judge, subjects, "empty", name)
        return [
            _moved(judge.name, "length", plain, longer, LONGER_SCORE),
            _moved(judge.name, "self_preference", other, own, OWN_SCORE),
            _empty(judge.name, empty),
        ]  # fmt: skip

    async def pair_bias(self, judge: Grader, subjects: Sequence[Subject]) -> list[Assessment]:
        """An answer against itself, against itself made longer, and under two names; each in both orders."""
        name = _own_name(judge)
        same = await self._calls(judge, [_pair(subject, subject) for subject in subjects])
        longer = await self._calls(judge, [_pair(one, probe(one, "longer", own_name=name)) for one in subjects])
        own = await self._calls(
            judge,
            [_pair(probe(one, "other_name", own_name=name), probe(one, "own_name", own_name=name)) for one in subjects],
        )
        return [
            _order(judge.name, same),
            _wins(judge.name, "length", longer, LONGER_WINS),
            _wins(judge.name, "self_preference", own, OWN_WINS),
        ]  # fmt: skip

    async def _probed(self, judge: Grader, subjects: Sequence[Subject], kind: Probe, name: str) -> list[GraderScore]:
        return await self._scores(judge, [probe(subject, kind, own_name=name) for subject in subjects])

    async def _scores(self, judge: Grader, subjects: Sequence[Subject]) -> list[GraderScore]:
        async def ask(subject: Subject) -> GraderScore:
            record = subject.record
            key = TrialKey(variant=record.variant, case_id=record.case_id, trial=record.trial)
            async with self._room:
                found = await self._source.trial(key, subject, [judge])
            self._answered(judge)
            return found.scores[judge.name]

        return await together(ask(subject) for subject in subjects)

    async def _calls(self, judge: Grader, pairs: Iterable[Pair]) -> list[list[PairCall]]:
        async def ask(pair: Pair) -> list[PairCall]:
            key = ComparisonKey(candidate=pair.candidate, case_id=pair.case.id)
            async with self._room:
                found = await self._source.comparison(key, pair, [judge])
            self._answered(judge)
            return list(found.preferences[judge.name].pairs or [])

        return await together(ask(pair) for pair in pairs)


def _pair(baseline: Subject, candidate: Subject) -> Pair:
    return Pair(
        case=baseline.case, candidate=candidate.record.variant, baseline_trials=[baseline], candidate_trials=[candidate]
    )


def _own_name(judge: Grader) -> str:
    model = judge.spec.options.get("model")
    return str(model).rpartition(":")[2] if model else NEUTRAL_NAME


def _errors(scores: Iterable[GraderScore]) -> int:
    return sum(score.error is not None for score in scores)


def _spread(scores: Sequence[GraderScore]) -> float | None:
    known = [score.score for score in scores if score.counts and score.score is not None]
    return statistics.pstdev(known) if len(known) > 1 else None


def _steady(name: str, answers: Sequence[Sequence[Any]], *, spreads: Sequence[float | None], errors: int) -> Assessment:
    repeated = [group for group in answers if len(group) > 1]
    found = stability(repeated)
    changed = sum(len(set(group)) > 1 for group in repeated)
    known = [spread for spread in spreads if spread is not None]
    finding = None
    if found.unanimous is not None and len(repeated) >= ENOUGH and found.unanimous < STEADY:
        finding = f"flips: asked the same again, it changed its verdict on {changed} of {len(repeated)} questions"
    figures = {
        "modalShare": found.modal_share,
        "unanimous": found.unanimous,
        "changed": changed,
        "scoreStdDev": statistics.fmean(known) if known else None,
    }
    return Assessment(grader=name, probe="stability", n=len(repeated), errors=errors, figures=figures, finding=finding)


def _moved(name: str, kind: str, before: Sequence[GraderScore], after: Sequence[GraderScore], says: str) -> Assessment:
    """Whether scores rise from one wording of the same answers to another: a sign test over the answers."""
    both = [
        (_points(old), _points(new))
        for old, new in zip(before, after, strict=True)
        if old.counts and new.counts
    ]  # fmt: skip
    up, down = sum(new > old for old, new in both), sum(new < old for old, new in both)
    p = coin_two_sided_p(up, up + down)
    shift = statistics.fmean(new - old for old, new in both) if both else None
    finding = (
        f"{says} of {up} of {len(both)} answers and lowered {down} (p {p:.2g})" if p < LEVEL and up > down else None
    )
    figures = {"up": up, "down": down, "meanShift": shift, "p": p}
    return Assessment(
        grader=name, probe=kind, n=len(both), errors=_errors([*before, *after]), figures=figures, finding=finding
    )


def _points(score: GraderScore) -> float:
    return score.score if score.score is not None else float(score.passed)


def _empty(name: str, scores: Sequence[GraderScore]) -> Assessment:
    judged = [score for score in scores if score.counts]
    passed = sum(score.passed for score in judged)
    share = passed / len(judged) if judged else None
    finding = None
    if share is not None and share > SAME_LEVEL and len(judged) >= ENOUGH:
        finding = f"passes answers that are not there: {passed} of {len(judged)} empty ones"
        if passed == len(judged):
            finding = f"always passes: every one of {passed} empty answers too"
    return Assessment(
        grader=name, probe="empty", n=len(judged), errors=_errors(scores), figures={"passed": passed, "share": share},
        finding=finding,
    )  # fmt: skip


def _order(name: str, asked: Sequence[Sequence[PairCall]]) -> Assessment:
    """An answer against itself: there is nothing to prefer, so what it names is the place."""
    calls = [call for found in asked for call in found]
    places = Counter(_place(call) for call in calls if call.preference is not None)
    first, second, n = places["first"], places["second"], places.total()
    p = coin_two_sided_p(first, first + second)
    decided = (first + second) / n if n else None
    finding = None
    if p < LEVEL:
        slot = "first" if first > second else "second"
        finding = (
            f"prefers the {slot} place: named it in {max(first, second)} of {n} pairs of identical answers (p {p:.2g})"
        )
    elif decided is not None and decided > SAME_LEVEL and n >= ENOUGH:
        finding = (
            f"flips: named a winner, now one and now the other, in {first + second} of {n} pairs of identical answers"
        )
    errors = sum(call.error is not None for call in calls)
    figures = {"first": first, "second": second, "tie": places["tie"], "p": p, "decided": decided}
    return Assessment(grader=name, probe="order", n=n, errors=errors, figures=figures, finding=finding)


def _place(call: PairCall) -> str:
    first: Side = "baseline" if call.order == "baseline_first" else "candidate"
    return "tie" if call.preference == "tie" else "first" if call.preference == first else "second"


def _wins(name: str, kind: str, asked: Sequence[Sequence[PairCall]], says: str) -> Assessment:
    """How often the changed answer wins in both orders."""
    outcomes: Counter[str] = Counter()
    for calls in asked:
        answered = {call.preference for call in calls if call.preference is not None}
        if answered:
            outcomes[answered.pop() if len(answered) == 1 else "tie"] += 1
    won, lost, n = outcomes["candidate"], outcomes["baseline"], outcomes.total()
    p = coin_two_sided_p(won, won + lost)
    finding = (
        f"{says} over the plain one in {won} of {n} pairs, in both orders (p {p:.2g})"
        if p < LEVEL and won > lost
        else None
    )
    errors = sum(call.error is not None for calls in asked for call in calls)
    figures = {"won": won, "lost": lost, "tie": outcomes["tie"], "p": p}
    return Assessment(grader=name, probe=kind, n=n, errors=errors, figures=figures, finding=finding)
