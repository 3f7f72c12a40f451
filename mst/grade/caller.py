"""What calling a grader takes: its object, its context, a bound on time, and words for what went wrong."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

from mst.config.files import FileSource
from mst.config.registry import lookup
from mst.errors import GraderError, GradingFault, MstError
from mst.grade.assertions.base import Assertion, ProgramAssertion
from mst.grade.breaker import Breaker
from mst.grade.contract import Grader
from mst.judges import strictjson
from mst.judges.contract import Judge, JudgeContext, PairwiseJudge, bound_s, close
from mst.judges.options import parse_options
from mst.model.base import Model
from mst.model.case import GraderSpec
from mst.model.sound import sound
from mst.process import tracing
from mst.process.redact import Redactor
from mst.process.some import Some
from mst.providers.limits import Limits
from mst.sandboxes.contract import Sandbox

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
        pricing: USD per million tokens by model.
        limits: how fast models may be asked.
        breaker: which judges are not asked any more.
    """

    files: FileSource
    secrets: Mapping[str, str] = field(repr=False)
    scratch: Path
    redactor: Redactor
    timeout_s: float
    pricing: Mapping[str, Any] = field(default_factory=dict)
    limits: Limits = field(default_factory=Limits, repr=False)
    breaker: Breaker = field(default_factory=Breaker, repr=False)
    _prepared: dict[tuple[str, str], Any] = field(default_factory=dict, repr=False)
    _dropped: list[Any] = field(default_factory=list, repr=False)

    def context(self, spec: GraderSpec, sandbox: Sandbox | None = None) -> JudgeContext:
        """What a grader may use in one call; `sandbox` where it runs what the trial left."""
        return JudgeContext(
            scratch=self.scratch,
            secrets=Some(self.secrets, spec.secrets),
            files=self.files,
            timeout_s=spec.timeout_s or self.timeout_s,
            redact=self.redactor.text,
            pricing=self.pricing,
            limits=self.limits,
            sandbox=sandbox,
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
                dropped = self._prepared.pop(next(iter(self._prepared)))
                if hasattr(dropped, "aclose"):
                    self._dropped.append(dropped)
            self._prepared[key] = made
        return self._prepared[key]

    async def aclose(self) -> None:
        """Close what judges keep open. Their faults in this are nobody's any more."""
        for made in [*self._dropped, *self._prepared.values()]:
            with suppress(Exception):
                await close(made)
        self._dropped.clear()


async def bounded(judge: Judge | PairwiseJudge, call: Awaitable[AnswerT], timeout_s: float) -> AnswerT:
    """Await a judge, which keeps its time limit itself; give it up soon after that.

    Args:
        judge: one that waits for its turn may take longer than one answer may (`bound_s`).
        call: the call.
        timeout_s: of one answer.

    Raises:
        GraderError: it was given up.
    """
    limit_s = bound_s(judge, timeout_s)
    try:
        with tracing.span("mst.judge", judge=type(judge).__name__):
            async with asyncio.timeout(limit_s + GUARD_S):
                return await call
    except TimeoutError as error:
        raise GraderError(f"the judge did not end within {limit_s:g} s", "timeout") from error


def why(error: Exception) -> str:
    """An error in words: our own say what to do; a foreign one is named by its type."""
    said = sound(str(error))  # it may quote a server, or the name of a file
    if isinstance(error, MstError):
        return said
    return f"{type(error).__name__}: {said}" if said else type(error).__name__


def kind_of(error: Exception) -> GradingFault:
    """The kind of an error that left a grader without a verdict."""
    return error.kind if isinstance(error, GraderError) else "grader"


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
