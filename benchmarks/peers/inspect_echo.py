"""Inspect AI on a model that answers at once and a scorer that looks for a text."""

from inspect_ai import Task, task
from inspect_ai.dataset import Sample
from inspect_ai.model import ModelOutput, ModelUsage, get_model
from inspect_ai.scorer import includes
from inspect_ai.solver import generate


def answer(messages, *_):
    """The question itself. With usage given, no tokenizer has to be fetched."""
    output = ModelOutput.from_content(model="mockllm", content=messages[-1].text)
    output.usage = ModelUsage(input_tokens=6, output_tokens=6, total_tokens=12)
    return output


@task
def echo(n: int = 1000):
    """`n` samples."""
    return Task(
        dataset=[Sample(id=f"c{i}", input=f"Say hello to item {i}", target=f"item {i}") for i in range(n)],
        solver=generate(),
        scorer=includes(),
        model=get_model("mockllm/model", custom_outputs=answer),
    )
