"""Verdicts that stay when a grading is resumed: per trial and grader, a verdict is kept, an error is asked again."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

from mst.errors import UsageError
from mst.grade.comparing import pair_digests, sides_passed
from mst.grade.contract import Grader, Pair
from mst.model.keys import ComparisonKey, TrialKey
from mst.model.run import RunRecord
from mst.model.score import (
    ComparisonGrading,
    GraderScore,
    Preference,
    PreferenceRecord,
    ScoreRecord,
    TrialGrading,
)
from mst.runs.folder import RunFolder


class EarlierGradings:
    """Gradings that lie in a run folder, read when asked for: memory stays flat."""

    def __init__(self, folder: RunFolder) -> None:
        self._folder = folder

    def trial(self, key: TrialKey, graders: Sequence[Grader]) -> TrialGrading | None:
        """What the folder has of these graders on a trial; None when it has nothing."""
        scores, identities, trial_digest = {}, {}, ""
        for grader in graders:
            record = self._folder.score(grader.name, key)
            if record is not None:
                scores[grader.name] = record.score
                identities[grader.name] = record.identity
                trial_digest = record.trial_digest
        if not scores:
            return None
        return TrialGrading(key=key, trial_digest=trial_digest, scores=scores, identities=identities)

    def comparison(self, key: ComparisonKey, judges: Sequence[Grader]) -> ComparisonGrading | None:
        """What the folder has of these judges on a comparison; None when it has nothing."""
        preferences: dict[str, Preference] = {}
        identities: dict[str, str] = {}
        digests: list[str] = []
        for judge in judges:
            record = self._folder.preference(judge.name, key)
            if record is not None:
                preferences[judge.name] = record.preference
                identities[judge.name] = record.identity
                digests = record.trial_digests
        if not preferences:
            return None
        return ComparisonGrading(key=key, trial_digests=digests, preferences=preferences, identities=identities)


class Joined(EarlierGradings):
    """Gradings of a folder, and where it has no verdict those of another grading of the same trials."""

    def __init__(self, folder: RunFolder, reused: RunFolder) -> None:
        super().__init__(folder)
        self._reused = EarlierGradings(reused)

    def trial(self, key: TrialKey, graders: Sequence[Grader]) -> TrialGrading | None:
        """See `EarlierGradings.trial`. Of another state of the trial nothing is taken."""
        own, other = super().trial(key, graders), self._reused.trial(key, graders)
        if own is None or other is None or own.trial_digest != other.trial_digest:
            return own or other
        taken = {name for name, score in other.scores.items() if not _is_verdict(own.scores.get(name))}
        return own.model_copy(
            update={
                "scores": {**own.scores, **{name: other.scores[name] for name in taken}},
                "identities": {**own.identities, **{name: other.identities[name] for name in taken}},
            }
        )

    def comparison(self, key: ComparisonKey, judges: Sequence[Grader]) -> ComparisonGrading | None:
        """See `EarlierGradings.comparison`."""
        own, other = super().comparison(key, judges), self._reused.comparison(key, judges)
        if own is None or other is None or own.trial_digests != other.trial_digests:
            return own or other
        taken = {name for name, found in other.preferences.items() if not _is_verdict(own.preferences.get(name))}
        return own.model_copy(
            update={
                "preferences": {**own.preferences, **{name: other.preferences[name] for name in taken}},
                "identities": {**own.identities, **{name: other.identities[name] for name in taken}},
            }
        )


def _is_verdict(found: GraderScore | Preference | None) -> bool:
    return found is not None and found.is_verdict


def adopt(folder: RunFolder, baseline: str, found: TrialGrading | ComparisonGrading) -> None:
    """Write verdicts that came back from a shard into a run folder. Errors are left out: they are asked again."""
    if isinstance(found, TrialGrading):
        for grader, score in found.scores.items():
            if score.is_verdict:
                folder.write_verdict(score_record(folder.run_id, found, grader))
        return
    for judge, preference in found.preferences.items():
        if preference.is_verdict:
            folder.write_verdict(preference_record(folder.run_id, baseline, found, judge))


def score_record(run_id: str, found: TrialGrading, grader: str) -> ScoreRecord:
    """One grader's score as the run folder keeps it."""
    return ScoreRecord(
        run_id=run_id,
        grader=grader,
        variant=found.key.variant,
        case_id=found.key.case_id,
        trial=found.key.trial,
        trial_digest=found.trial_digest,
        identity=found.identities[grader],
        score=found.scores[grader],
    )


def preference_record(run_id: str, baseline: str, found: ComparisonGrading, judge: str) -> PreferenceRecord:
    """One pairwise judge's preference as the run folder keeps it."""
    return PreferenceRecord(
        run_id=run_id,
        judge=judge,
        variant=found.key.candidate,
        baseline=baseline,
        case_id=found.key.case_id,
        trial_digests=found.trial_digests,
        identity=found.identities[judge],
        preference=found.preferences[judge],
    )


def kept_scores(found: TrialGrading | None, trial_digest: str, graders: Sequence[Grader]) -> dict[str, GraderScore]:
    """The verdicts that stay: given for the same bytes, by graders that still are what they were."""
    if found is None or found.trial_digest != trial_digest:
        return {}
    return {
        grader.name: score
        for grader in graders
        if (score := found.scores.get(grader.name)) is not None
        and score.is_verdict
        and found.identities.get(grader.name) == grader.identity
    }


def kept_preferences(found: ComparisonGrading | None, pair: Pair, judges: Sequence[Grader]) -> dict[str, Preference]:
    """The preferences that stay: as for scores, and the judge was told the same of the sides."""
    if found is None or found.trial_digests != pair_digests(pair):
        return {}
    passed = sides_passed(pair)
    return {
        judge.name: preference
        for judge in judges
        if (preference := found.preferences.get(judge.name)) is not None
        and preference.is_verdict
        and preference.sides_passed in (None, passed)
        and found.identities.get(judge.name) == judge.identity
    }


def refuse_changed(regrade: RunRecord, now: RunRecord) -> None:
    """Refuse to resume a grading whose graders or cases are not what they were.

    A case-level judge that changed is no reason: its verdicts have another identity and are asked again.

    Raises:
        UsageError: saying which.
    """
    changed = _changed(_shared(regrade), _shared(now))
    if changed:
        raise UsageError(
            f"{regrade.run_id} cannot be resumed: its graders changed since ({', '.join(changed)}); "
            f"make a new regrade with 'mst grade {regrade.graded_from or regrade.run_id}'"
        )
    if regrade.cases_hash != now.cases_hash:
        raise UsageError(
            f"{regrade.run_id} cannot be resumed: its cases changed since; "
            f"make a new regrade with 'mst grade {regrade.graded_from or regrade.run_id}'"
        )


def _shared(run: RunRecord) -> dict[tuple[str, str], list[str]]:
    """Identities by level and name; several assertions of one type may have no name of their own."""
    found: dict[tuple[str, str], list[str]] = defaultdict(list)
    for grader in run.graders:
        if grader.level != "case":
            found[grader.level, grader.name or grader.type].append(grader.identity)
    return dict(found)


def _changed(before: dict[tuple[str, str], list[str]], now: dict[tuple[str, str], list[str]]) -> list[str]:
    keys = sorted(set(before) | set(now))
    return [f"{level} {name}" for level, name in keys if before.get((level, name)) != now.get((level, name))]
