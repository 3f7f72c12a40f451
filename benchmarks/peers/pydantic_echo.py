"""pydantic-evals on a function that returns its input."""

import sys

from pydantic_evals import Case, Dataset
from pydantic_evals.evaluators import Contains


async def echo(text: str) -> str:
    """The program under test."""
    return text


names = range(int(sys.argv[1]))
cases = [Case(name=f"c{i}", inputs=f"Say hello to item {i}", evaluators=(Contains(f"item {i}"),)) for i in names]
report = Dataset(name="echo", cases=cases).evaluate_sync(echo, max_concurrency=8, progress=False)
assert report.averages().assertions == 1.0
