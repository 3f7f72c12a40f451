"""What a grading was asked for, and what of it is still owed when it is resumed."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from mst.grade.contract import Grader, GradingSource, Pair
from mst.grade.names import graders_for, pairwise_for
from mst.judges.contract import Subject
from mst.model.case import Case, EvalPlan
from mst.model.keys import ComparisonKey, TrialKey
from mst.model.run import Selection
from mst.model.score import ComparisonGrading, TrialGrading
from mst.model.shard import UnitKey
from mst.runs.earlier import EarlierGradings, is_settled
from mst.runs.folder import RunFolder
from mst.runs.inputs import GradeInputs
from mst.shards.coordinate import planned_units


@dataclass(frozen=True, kw_only=True)
class GradeRequest:
    """What to grade, with what.

    Attributes:
        source: the run that collected.
        inputs: graders, cases and files.
        runner_name: as given to `--runner`; `local` grades in this process.
        shards: how many.
        secrets: values that graders may get, by name.
        selection: how the grading is narrowed, if it is.
        case_ids: the cases to grade when narrowed.
        variants: names in the plan's order.
    """

    source: RunFolder
    inputs: GradeInputs
    runner_name: str
    shards: int = 1
    secrets: Mapping[str, str] = field(default_factory=dict, repr=False)
    secret_names: Sequence[str] = ()
    selection: Selection | None = None
    variants: Sequence[str] = ()

    @property
    def plan(self) -> EvalPlan:
        """The eval plan with the graders to use."""
        return self.inputs.plan

    def graders(self, key: TrialKey, case: Case) -> list[Grader]:
        """The graders of one trial."""
        return graders_for(self.plan, self.plan.variant(key.variant), case)

    def judges(self) -> list[Grader]:
        """Every distinct judge and pairwise judge that the grading will ask."""
        found: dict[tuple[str, str], Grader] = {}
        for case in self.inputs.cases:
            for name in self.variants:
                for grader in self.graders(TrialKey(variant=name, case_id=case.id, trial=0), case):
                    if grader.role == "judge":
                        found.setdefault((grader.name, grader.spec.to_json().decode()), grader)
        return [*found.values(), *pairwise_for(self.plan)]


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
    judges = pairwise_for(request.plan)
    for key in planned_units(request.plan, case, request.variants, request.source):
        if isinstance(key, ComparisonKey):
            compared = earlier.comparison(key, judges)
            if compared is None or not is_settled(compared.preferences, compared.identities, judges):
                return True
            continue
        graders = request.graders(key, case)
        graded = earlier.trial(key, graders)
        if graders and (graded is None or not is_settled(graded.scores, graded.identities, graders)):
            return True
    return False


class Settled(GradingSource):
    """Cases that owed nothing were not sent out again: their verdicts are in the folder. All others from the source."""

    def __init__(self, source: GradingSource, earlier: EarlierGradings) -> None:
        self._source = source
        self._earlier = earlier

    async def trial(self, key: TrialKey, subject: Subject, graders: Sequence[Grader]) -> TrialGrading:
        """See `GradingSource.trial`."""
        found = self._earlier.trial(key, graders)
        if found is not None and is_settled(found.scores, found.identities, graders):
            return found
        return await self._source.trial(key, subject, graders)

    async def comparison(self, key: ComparisonKey, pair: Pair, judges: Sequence[Grader]) -> ComparisonGrading:
        """See `GradingSource.comparison`."""
        found = self._earlier.comparison(key, judges)
        if found is not None and is_settled(found.preferences, found.identities, judges):
            return found
        return await self._source.comparison(key, pair, judges)
