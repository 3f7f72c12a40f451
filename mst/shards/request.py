"""What a grading was asked for, and what of it is still owed when it is resumed."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from mst.errors import SecretMissing
from mst.grade.comparing import pair_digests
from mst.grade.contract import Grader, GradingSource, Pair
from mst.grade.names import graders_for, judges_for, pairwise_for
from mst.judges.contract import Subject
from mst.model.case import Case, EvalPlan
from mst.model.keys import ComparisonKey, TrialKey
from mst.model.run import Selection
from mst.model.score import ComparisonGrading, TrialGrading
from mst.model.shard import UnitKey
from mst.runs.authors import Distrusted
from mst.runs.earlier import EarlierGradings, Joined, kept_preferences, kept_scores
from mst.runs.folder import RunFolder
from mst.runs.grading import GradedTrial, pairs_of
from mst.runs.inputs import GradeInputs
from mst.runs.locate import new_regrade


@dataclass(frozen=True, kw_only=True)
class GradeRequest:
    """What to grade, with what.

    Attributes:
        source: the run that collected.
        inputs: graders, cases and files.
        runner_name: as given to `--runner`; `local` grades in this process.
        shards: how many.
        secrets: values that graders may get, by name.
        lacking: the error for secrets without a value; raised only when something must be graded or sent with them.
        selection: how the grading is narrowed, if it is; `inputs` have only those cases then.
        distrusted: machines and attempts whose verdicts a resume drops and asks for again.
        reused: another grading of the same trials, whose verdicts are taken where nothing has changed.
        variants: names in the plan's order.
        claim: takes the number of a new regrade of a run and makes its folder.
    """

    source: RunFolder
    inputs: GradeInputs
    runner_name: str
    shards: int = 1
    secrets: Mapping[str, str] = field(default_factory=dict, repr=False)
    secret_names: Sequence[str] = ()
    lacking: SecretMissing | None = None
    selection: Selection | None = None
    distrusted: Sequence[Distrusted] = ()
    reused: RunFolder | None = None
    variants: Sequence[str] = ()
    claim: Callable[[RunFolder], RunFolder] = new_regrade

    @property
    def plan(self) -> EvalPlan:
        """The eval plan with the graders to use."""
        return self.inputs.plan

    def keys(self, case: Case) -> list[TrialKey]:
        """Every planned trial of one case."""
        return self.plan.trial_keys(case, self.variants)

    def earlier(self, folder: RunFolder) -> EarlierGradings:
        """What is graded already: in a folder, and in the grading that is reused."""
        return EarlierGradings(folder) if self.reused is None else Joined(folder, self.reused)

    def graders(self, key: TrialKey, case: Case) -> list[Grader]:
        """The graders of one trial."""
        return graders_for(self.plan, self.plan.variant(key.variant), case)

    def judges(self) -> list[Grader]:
        """Every distinct judge and pairwise judge that the grading will ask."""
        return judges_for(self.plan, self.inputs.cases.equipped(), self.variants)


def lookup(
    request: GradeRequest, earlier: EarlierGradings
) -> Callable[[UnitKey], TrialGrading | ComparisonGrading | None]:
    """Earlier gradings by unit, for a live source that keeps their verdicts."""

    def find(key: UnitKey) -> TrialGrading | ComparisonGrading | None:
        if isinstance(key, ComparisonKey):
            return earlier.comparison(key, pairwise_for(request.plan))
        return earlier.trial(key, request.graders(key, request.inputs.cases.get(key.case_id)))

    return find


def owes(request: GradeRequest, earlier: EarlierGradings, case: Case) -> bool:
    """Whether some grader owes this case a verdict."""
    trials = []
    for key in request.keys(case):
        subject = request.source.subject(case, key)
        if subject is None or not subject.record.is_scorable:
            continue
        graders = request.graders(key, case)
        graded = earlier.trial(key, graders)
        if len(kept_scores(graded, subject.digest, graders)) < len(graders):
            return True
        trials.append(GradedTrial(key=key, subject=subject, grading=graded))
    judges = pairwise_for(request.plan)
    return any(
        len(kept_preferences(earlier.comparison(key, judges), pair, judges)) < len(judges)
        for key, pair in pairs_of(request.plan, case, trials, request.variants)
    )


class Settled(GradingSource):
    """Verdicts that stay are taken from the folder, whatever became of the shard; all others come from the source."""

    def __init__(self, source: GradingSource, earlier: EarlierGradings) -> None:
        self._source = source
        self._earlier = earlier

    async def trial(self, key: TrialKey, subject: Subject, graders: Sequence[Grader]) -> TrialGrading:
        """See `GradingSource.trial`."""
        kept = kept_scores(self._earlier.trial(key, graders), subject.digest, graders)
        asked = [grader for grader in graders if grader.name not in kept]
        scores = kept | ((await self._source.trial(key, subject, asked)).scores if asked else {})
        return TrialGrading(
            key=key,
            trial_digest=subject.digest,
            scores={grader.name: scores[grader.name] for grader in graders},
            identities={grader.name: grader.identity for grader in graders},
        )

    async def comparison(self, key: ComparisonKey, pair: Pair, judges: Sequence[Grader]) -> ComparisonGrading:
        """See `GradingSource.comparison`."""
        kept = kept_preferences(self._earlier.comparison(key, judges), pair, judges)
        asked = [judge for judge in judges if judge.name not in kept]
        preferences = kept | ((await self._source.comparison(key, pair, asked)).preferences if asked else {})
        return ComparisonGrading(
            key=key,
            trial_digests=pair_digests(pair),
            preferences={judge.name: preferences[judge.name] for judge in judges},
            identities={judge.name: judge.identity for judge in judges},
        )
