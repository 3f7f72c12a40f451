"""The client that knows the solution: a sound scorer must pass it, or the case is wrong."""

from __future__ import annotations

from pathlib import Path
from typing import ClassVar, Literal

from mst.clients.contract import ClientResult, Needs, TrialContext
from mst.clients.options import NoOptions, parse_options
from mst.clients.placeholders import as_text
from mst.model.base import Model
from mst.model.case import Case, Variant
from mst.model.transcript import Evidence, Transcript


class Oracle:
    """Its workspace is the fixture with the solution laid over it; its answer is `expected.answer`.

    A `stay_quiet` case without a solution is answered by leaving its files alone. A case with nothing of all this is
    not scored: the result has an error without a kind, the trial is `incomplete`.
    """

    Options: ClassVar[type[Model]] = NoOptions
    evidence: ClassVar[Evidence] = "none"
    starts_from: ClassVar[Literal["fixture", "solution"]] = "solution"
    needs: ClassVar[Needs] = "nothing"

    def __init__(self, variant: Variant) -> None:
        parse_options(NoOptions, variant)

    def secrets_needed(self) -> list[str]:
        """None."""
        return []

    def preflight(self) -> list[str]:
        """Always ready."""
        return []

    async def run(self, case: Case, workspace: Path | None, context: TrialContext) -> ClientResult:
        """See `Client.run`."""
        answer = case.expected.get("answer")
        if answer is not None:
            return ClientResult(transcript=Transcript(final_text=as_text(answer)))
        if workspace is not None and (case.solution is not None or case.kind == "stay_quiet"):
            return ClientResult(transcript=Transcript(final_text=""))
        missing = "no solution/ and no expected.answer: the oracle has nothing to show"
        return ClientResult(transcript=Transcript(error=missing), error=missing)

    async def close(self) -> None:
        """Nothing to end."""
