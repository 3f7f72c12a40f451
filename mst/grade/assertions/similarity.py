"""`similarity`: how near the answer's meaning is to a text, by embeddings that are computed here and offline.

The vectors come with the package `wordllama`: fixed ones for each token, averaged. They know which words go together,
not grammar: "not" moves them little. It is a coarse measure, made for free text whose wording varies.
"""

from __future__ import annotations

import asyncio
import importlib
import importlib.metadata
import logging
import threading
from functools import lru_cache
from pathlib import Path
from typing import Annotated, Any, ClassVar

from pydantic import Field

from mst.errors import ConfigError, GraderError
from mst.grade.assertions.base import ProgramAssertion, Text, Texts, listed, verdict
from mst.judges.contract import JudgeContext, Subject
from mst.judges.options import Options
from mst.model.case import GraderSpec
from mst.model.score import GraderScore

CHARACTERS = 100_000
_LOADING = threading.Lock()


class SimilarityOptions(Options):
    """Options of `similarity`. Without `value`, the case's `expected.answer` is meant."""

    main: ClassVar[str] = "value"

    value: Text | Texts | None = None
    """One text or several; the nearest counts."""
    min: Annotated[float, Field(ge=0, le=1)] = 0.4
    """The cosine similarity that passes. Other wordings of a sentence lie at 0.5 and above, other matters below 0.2."""


async def similarity(
    subject: Subject,
    options: SimilarityOptions,
    spec: GraderSpec,  # noqa: ARG001 - the signature of assertions that wait for something
    context: JudgeContext,  # noqa: ARG001 - as above
) -> GraderScore:
    """The answer's meaning is near enough to one of the texts.

    Raises:
        ConfigError: the package is missing.
        GraderError: there is nothing to compare with.
    """
    wanted = options.value if options.value is not None else subject.case.expected.get("answer")
    if not isinstance(wanted, str | list) or not wanted or not all(isinstance(one, str) for one in listed(wanted)):
        raise GraderError("similarity: there is no text to compare with; give a value, or an expected.answer")
    if not subject.text.strip():
        return verdict(["the answer is empty"], "").model_copy(update={"score": 0.0})
    near = await asyncio.to_thread(nearest, subject.text[:CHARACTERS], [one[:CHARACTERS] for one in listed(wanted)])
    said = f"similarity {near:.3f}, at least {options.min:g} wanted"
    score = verdict([] if near >= options.min else [said], said)
    return score.model_copy(update={"score": near, "judge_model": model_name()})


def nearest(text: str, others: list[str]) -> float:
    """The largest cosine similarity of a text with others, as 0..1; opposite directions are 0.

    Raises:
        ConfigError: the package is missing.
    """
    vectors = _model().embed([text, *others], norm=True)
    return float(min(1.0, max(0.0, (vectors[1:] @ vectors[0]).max())))


@lru_cache(maxsize=1)
def model_name() -> str:
    """What the vectors are, for the record: another version of them gives other numbers."""
    return f"wordllama {importlib.metadata.version('wordllama')} l2_supercat 256"


def _model() -> Any:
    with _LOADING:
        return _load()


@lru_cache(maxsize=1)
def _load() -> Any:
    """The vectors out of the package, never from the network."""
    root = logging.getLogger()
    level, handlers = root.level, list(root.handlers)
    try:
        package = importlib.import_module("wordllama")
    except ModuleNotFoundError as error:
        raise ConfigError("similarity needs the package 'wordllama': pip install 'mst[similarity]'") from error
    finally:
        # The package sets up logging for the whole program when it is imported.
        root.setLevel(level)
        for handler in [handler for handler in root.handlers if handler not in handlers]:
            root.removeHandler(handler)
    return package.WordLlama.load(cache_dir=Path(str(package.__file__)).parent, disable_download=True)


SIMILARITY_ASSERTIONS: dict[str, ProgramAssertion] = {
    "similarity": ProgramAssertion(Options=SimilarityOptions, run=similarity),
}
