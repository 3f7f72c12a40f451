"""The grading source that reads what a shard worker recorded, in place of calling graders."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from mst.grade.comparing import pair_digests, sides_passed
from mst.grade.contract import Grader, GradingSource, Pair
from mst.judges.contract import Subject
from mst.model.keys import ComparisonKey, TrialKey
from mst.model.score import ComparisonGrading, GraderScore, Preference, TrialGrading

Lookup = Callable[[TrialKey | ComparisonKey], TrialGrading | ComparisonGrading | None]
Reason = Callable[[TrialKey | ComparisonKey], str]


class Recorded(GradingSource):
    """Supplies recorded verdicts. A verdict counts only for the same bytes and the same grader.

    Args:
        units: finds the record of a unit; None when there is none.
        missing_reason: why a unit has no record, as the end of the sentence `Missing: ...`.
    """

    def __init__(self, *, units: Lookup, missing_reason: Reason) -> None:
        self._units = units
        self._missing_reason = missing_reason

    async def trial(self, key: TrialKey, subject: Subject, graders: Sequence[Grader]) -> TrialGrading:
        """The recorded scores; a grading error for each that is missing or was given for something else."""
        unit = self._units(key)
        grading = unit if isinstance(unit, TrialGrading) and unit.key == key else None
        scores: dict[str, GraderScore] = {}
        for grader in graders:
            score = None if grading is None else grading.scores.get(grader.name)
            if grading is None or score is None:
                why = self._missing_reason(key) if grading is None else "the recorded result lacks this grader"
            elif grading.trial_digest != subject.digest:
                why = "the recorded verdict is for another version of this trial"
            elif grading.identities.get(grader.name) != grader.identity:
                why = "the recorded verdict is of another version of this grader"
            else:
                scores[grader.name] = score
                continue
            scores[grader.name] = GraderScore(passed=False, error=f"Missing: {why}")
        return TrialGrading(
            key=key,
            trial_digest=subject.digest,
            scores=scores,
            identities={grader.name: grader.identity for grader in graders},
        )

    async def comparison(self, key: ComparisonKey, pair: Pair, judges: Sequence[Grader]) -> ComparisonGrading:
        """The recorded preferences; a grading error for each that is missing or was given for something else."""
        unit = self._units(key)
        grading = unit if isinstance(unit, ComparisonGrading) and unit.key == key else None
        digests = pair_digests(pair)
        preferences: dict[str, Preference] = {}
        for judge in judges:
            found = None if grading is None else grading.preferences.get(judge.name)
            if grading is None or found is None:
                why = self._missing_reason(key) if grading is None else "the recorded result lacks this judge"
            elif grading.trial_digests != digests:
                why = "the recorded preference is for other versions of these trials"
            elif grading.identities.get(judge.name) != judge.identity:
                why = "the recorded preference is of another version of this judge"
            elif found.sides_passed is not None and found.sides_passed != sides_passed(pair):
                why = "whether the trials pass has changed since the recorded preference"
            else:
                preferences[judge.name] = found
                continue
            preferences[judge.name] = Preference(judge=judge.name, error=f"Missing: {why}")
        return ComparisonGrading(
            key=key,
            trial_digests=digests,
            preferences=preferences,
            identities={judge.name: judge.identity for judge in judges},
        )
