"""A scorer that looks for the target in the answer, for scoring a log again."""

from inspect_ai.scorer import CORRECT, INCORRECT, Score, Scorer, accuracy, scorer


@scorer(metrics=[accuracy()])
def contains() -> Scorer:
    """Correct when the target stands in the answer."""

    async def score(state, target):
        return Score(value=CORRECT if target.text in state.output.completion else INCORRECT)

    return score
