"""The client that answers its input: for trying out graders, and for measuring everything but a program."""

from __future__ import annotations

from pathlib import Path
from typing import ClassVar, Literal

from mst.clients.contract import ClientResult, Needs, TrialContext
from mst.clients.options import NoOptions, parse_options
from mst.model.base import Model
from mst.model.case import Case, Variant
from mst.model.transcript import Evidence, Transcript


class Echo:
    """Answers the prompt. Starts nothing and touches no file."""

    Options: ClassVar[type[Model]] = NoOptions
    evidence: ClassVar[Evidence] = "none"
    starts_from: ClassVar[Literal["fixture", "solution"]] = "fixture"
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
        return ClientResult(transcript=Transcript(final_text=context.prompt))

    async def close(self) -> None:
        """Nothing to end."""
