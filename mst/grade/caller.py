"""What calling a grader takes: its object, its context, a bound on time, and words for what went wrong."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

from mst.config.files import FileSource
from mst.config.registry import lookup
from mst.errors import GraderError, MstError
from mst.grade.assertions.base import Assertion, ProgramAssertion
from mst.grade.contract import Grader
from mst.judges import strictjson
from mst.judges.contract import JudgeContext
from mst.judges.options import parse_options
from mst.model.base import Model
from mst.model.case import GraderSpec
from mst.process.redact import Redactor

GUARD_S = 30.0
"""What a judge gets on top of its time limit, to end what it started, before it is given up."""
_PREPARED = 512

FoundT = TypeVar("FoundT", bound=Model)
AnswerT = TypeVar("AnswerT")


@dataclass(kw_only=True)
class Caller:
    """Prepares graders, each once, and gives them what they may use.

    Attributes:
        files: finds graders' files by digest.
        secrets: values by name; a grader gets those that its spec lists.
        scratch: parent of private working folders.
        redactor: takes the secrets out of everything that graders say.
        timeout_s: bound of a grader that has none of its own.
    """

    files: FileSource
    secrets: Mapping[str, str] = field(repr=False)
    scratch: Path
    redactor: Redactor
    timeout_s: float
    _prepared: dict[tuple[str, str], Any] = field(default_factory=dict, repr=False)

    def context(self, spec: GraderSpec) -> JudgeContext:
        """What a grader may use in one call."""
        return JudgeContext(
            scratch=self.scratch,
            secrets={name: self.secrets[name] for name in spec.secrets if name in self.secrets},
            files=self.files,
            timeout_s=spec.timeout_s or self.timeout_s,
            redact=self.redactor.text,
        )

    def prepared(self, grader: Grader) -> Any:
        """A judge's object, or an assertion with its options. The last 512 are kept.

        Raises:
            ConfigError: unknown type, missing package, options that are not valid.
        """
        key = (grader.role, grader.identity)
        if key not in self._prepared:
            made = _prepare(grader)
            while len(self._prepared) >= _PREPARED:
                del self._prepared[next(iter(self._prepared))]
            self._prepared[key] = made
        return self._prepared[key]


async def bounded(call: Awaitable[AnswerT], timeout_s: float) -> AnswerT:
    """Await a judge, which keeps its time limit itself; give it up soon after that.

    Raises:
        GraderError: it was given up.
    """
    try:
        async with asyncio.timeout(timeout_s + GUARD_S):
            return await call
    except TimeoutError as error:
        raise GraderError(f"the judge did not end within {timeout_s:g} s") from error


def why(error: Exception) -> str:
    """An error in words: our own say what to do; a foreign one is named by its type."""
    if isinstance(error, MstError):
        return str(error)
    return f"{type(error).__name__}: {error}" if str(error) else type(error).__name__


def storable(found: FoundT) -> FoundT:
    """A finding as it will be read from its file: plain JSON types only.

    Raises:
        GraderError: it cannot be written as JSON or digested.
    """
    try:
        strictjson.check(found.model_dump())
        data = found.to_json()
    except ValueError as error:
        raise GraderError(f"what the grader found cannot be stored: {error}") from error
    return type(found).model_validate_json(data)


def _prepare(grader: Grader) -> Any:
    spec = grader.spec
    if grader.role == "judge":
        return lookup("judges", spec.type)(spec)
    if grader.role == "pairwise":
        return lookup("pairwise_judges", spec.type)(spec)
    if grader.role == "checks":
        return None
    assertion: Assertion | ProgramAssertion = lookup("assertions", spec.type)
    return assertion, parse_options(spec, assertion.Options)
