"""A scorer that looks for the target in the answer, for scoring a log again."""

from inspect_ai.scorer import CORRECT, INCORRECT, Score, Scorer, Target, accuracy, scorer
from inspect_ai.solver import TaskState


@scorer(metrics=[accuracy()])
def contains() -> Scorer:
    """Correct when the target stands in the answer."""

    async def score(state: TaskState, target: Target) -> Score:
        return Score(value=CORRECT if target.text in state.output.completion else INCORRECT)

    return score
