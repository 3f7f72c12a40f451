"""What a judge and a pairwise judge are: they read what was kept and say what they think of it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar, Protocol

from mst.config.files import FileSource
from mst.model.base import FileRef, Model
from mst.model.case import Case, GraderSpec
from mst.model.score import Side, SubScore
from mst.model.transcript import Usage
from mst.model.trial import TrialRecord
from mst.providers.limits import Limits
from mst.sandboxes.contract import Sandbox


@dataclass(frozen=True, kw_only=True)
class Subject:
    """One trial as graders see it.

    Attributes:
        record: the trial record, transcript and diff included.
        digest: of the record and its artifacts; scores are given for it.
        artifacts: finds the bytes of `record.artifact_files` by digest.
        passed: what the trial's own grading said, for comparisons; None when unknown or ungraded.
    """

    case: Case
    record: TrialRecord
    digest: str
    artifacts: FileSource
    passed: bool | None = None

    @property
    def text(self) -> str:
        """The final answer, or an empty text."""
        transcript = self.record.transcript
        return (transcript.final_text or "") if transcript is not None else ""

    @property
    def artifact_files(self) -> list[FileRef]:
        """The exported workspace."""
        return self.record.artifact_files


@dataclass(frozen=True, kw_only=True)
class JudgeContext:
    """What a judge may use.

    Attributes:
        scratch: parent for private working folders.
        secrets: values for the names that the judge's spec lists, and no others.
        files: bytes of the spec's files by digest.
        timeout_s: bound of one call.
        redact: takes secrets out of a text. A judge needs it only before it cuts a text, since half a secret is not
            recognised any more; what it returns is redacted by its caller.
        pricing: USD per million tokens by model, as the eval config has them.
        limits: how fast models may be asked; judges of one grading share them.
        sandbox: in which what runs the trial's files runs: checks and assertions; None: as this user.
    """

    scratch: Path
    secrets: Mapping[str, str] = field(repr=False)
    files: FileSource
    timeout_s: float
    redact: Callable[[str], str] = field(default=str, repr=False)
    pricing: Mapping[str, Any] = field(default_factory=dict)
    limits: Limits = field(default_factory=Limits, repr=False)
    sandbox: Sandbox | None = None


@dataclass(frozen=True, kw_only=True)
class Finding:
    """A judge's answer on one trial. `score` is 0..1 unless skipped; `passed` overrides the threshold when given."""

    score: float | None = None
    passed: bool | None = None
    skipped: bool = False
    reasoning: str | None = None
    sub_scores: dict[str, SubScore] | None = None
    usage: Usage | None = None
    provider: str | None = None
    model: str | None = None
    metadata: dict[str, Any] | None = None


@dataclass(frozen=True, kw_only=True)
class Choice:
    """A pairwise judge's answer in one order. `preference` is already mapped back to the sides."""

    preference: Side | None = None
    skipped: bool = False
    strength: float | None = None
    reasoning: str | None = None
    dimensions: dict[str, Any] | None = None
    usage: Usage | None = None
    provider: str | None = None
    model: str | None = None
    metadata: dict[str, Any] | None = None


class Judge(Protocol):
    """Scores one trial. Made once per shard; calls may run concurrently.

    Class attributes:
        Options: schema of its options; unknown keys are refused.

    A judge may also have:
        secrets_of(options): class method; names of secrets that its options ask for, besides those under `secrets`.
        PROMPT_HASH: class attribute; hash of the texts that it puts around what it asks, part of its identity.
        prompt_hash_of(options): class method; the same where it depends on the options.
        bound_s(timeout_s): seconds that a call may take in all, waiting for its turn included; `timeout_s` otherwise.
        aclose(): coroutine; called once when no further call comes.
    """

    Options: ClassVar[type[Model]]

    def __init__(self, spec: GraderSpec) -> None: ...

    async def preflight(self, context: JudgeContext) -> None:
        """Find what would fail every call: a missing program, a key that is refused. Costs nothing.

        Raises:
            GraderError: with the fix.
        """
        ...

    async def evaluate(self, subject: Subject, context: JudgeContext) -> Finding:
        """Score one trial.

        Raises:
            GraderError: no verdict: crash, time-out, unusable answer. Never a low score instead.
        """
        ...


class PairwiseJudge(Protocol):
    """Compares two sides of one case.

    Class attributes:
        Options: schema of its options.
        deterministic: asked once, in one order; there is no position to be biased by.
    """

    Options: ClassVar[type[Model]]
    deterministic: ClassVar[bool]

    def __init__(self, spec: GraderSpec) -> None: ...

    async def preflight(self, context: JudgeContext) -> None:
        """See `Judge.preflight`."""
        ...

    async def compare(
        self, baseline: Subject, candidate: Subject, context: JudgeContext, *, candidate_first: bool
    ) -> Choice:
        """Compare in one order. The judged program sees neutral names for the sides, in that order.

        Raises:
            GraderError: no verdict.
        """
        ...


def bound_s(judge: Judge | PairwiseJudge, timeout_s: float) -> float:
    """Seconds that a call may take in all: what the judge says of it, where it does (see `Judge`)."""
    return float(judge.bound_s(timeout_s)) if hasattr(judge, "bound_s") else timeout_s


async def close(judge: Judge | PairwiseJudge) -> None:
    """Close what it keeps open, where it does (see `Judge`)."""
    if hasattr(judge, "aclose"):
        await judge.aclose()
