"""The client that starts nothing: it takes trials that somebody else collected, so that they can be graded here."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any, ClassVar, Literal

from pydantic import Field

from mst.clients.contract import ClientResult, Needs, TrialContext
from mst.clients.imports.index import Format, Index, index_of
from mst.clients.imports.records import Recorded
from mst.clients.options import ListedFiles, Options, listed_files, parse_options
from mst.config.files import FileSource
from mst.errors import ClientError, ConfigError
from mst.model.base import Model
from mst.model.case import Case, Variant
from mst.model.transcript import Evidence, Transcript


class ImportOptions(Options):
    """Options of the `import` client. The variant's `model` says whose trials to take, where the files have several."""

    files: ListedFiles = Field(min_length=1)
    """Beside the config: Inspect's logs (`.eval`, `.json`), promptfoo's output (`.json`, `.jsonl`), JSON lines."""
    format: Format = "auto"
    """`inspect`, `promptfoo` or `jsonl`; found out unless given."""
    prompt: str | None = None
    """The prompt's label whose trials to take, where the files have several."""
    case_id: str | None = Field(default=None, pattern=r"^[^.]+(\.[^.]+)*$")
    """Where a row of promptfoo or a JSON line has the case's ID, as a dotted path."""
    evidence: Evidence = "observed"
    """How far the transcripts can be trusted: `structured` only when nobody but the harness could have written them."""


class Import:
    """Looks up a trial by case ID, model and number. Reads one trial at a time; starts nothing.

    A trial that the files do not have, or that broke down where it was made, is `incomplete`: there is nothing to
    grade, it is no wrong answer, and collecting again would not mend it.
    """

    Options: ClassVar[type[Model]] = ImportOptions
    evidence: ClassVar[Evidence] = "none"
    starts_from: ClassVar[Literal["fixture", "solution"]] = "fixture"
    needs: ClassVar[Needs] = "nothing"

    def __init__(self, variant: Variant) -> None:
        self.options = parse_options(ImportOptions, variant)
        self.variant = variant

    def secrets_needed(self) -> list[str]:
        """None."""
        return []

    def preflight(self) -> list[str]:
        """Nothing that can be seen without the files; see `check_files`."""
        return []

    def check_files(self, files: FileSource) -> list[str]:
        """Files that cannot be read, and a model or prompt that they do not have."""
        try:
            self._chosen(files)
        except (ConfigError, ClientError) as error:
            return [str(error)]
        return []

    async def run(self, case: Case, workspace: Path | None, context: TrialContext) -> ClientResult:
        """See `Client.run`."""
        return await asyncio.to_thread(self._read, case, context)

    async def close(self) -> None:
        """Nothing to end."""

    def _read(self, case: Case, context: TrialContext) -> ClientResult:
        try:
            index, model, prompt = self._chosen(context.files)
            found = index.find(model, prompt, case.id, context.trial)
        except ConfigError as error:
            raise ClientError(str(error), "harness") from error
        if found is None:
            there = index.trials(model, prompt, case.id)
            has = f"has trials {', '.join(map(str, there[:20]))}" if there else "is not in the files"
            return ClientResult(
                transcript=Transcript(), error=f"no trial {context.trial} by {model!r}: case {case.id!r} {has}"
            )
        name, recorded = found
        return self._result(recorded, case, {"file": name, "model": model, "prompt": prompt, "case": case.id})

    def _chosen(self, files: FileSource) -> tuple[Index, str, str | None]:
        listed = listed_files(self.options.files)
        index = index_of(listed, files, format=self.options.format, case_id=self.options.case_id)
        model, prompt = index.choice(self.variant.model, self.options.prompt)
        return index, model, prompt

    def _result(self, recorded: Recorded, case: Case, source: dict[str, Any]) -> ClientResult:
        evidence = self.options.evidence if recorded.events else "none"
        asked = recorded.input
        metadata: dict[str, Any] = {"importedFrom": {**source, "id": recorded.source_id}}
        if recorded.scores:
            metadata["reportedScores"] = recorded.scores
        # The case may be written anew beside the file; that the question is another one has to be seen.
        differs = asked is not None and case.input not in ("", asked)
        return ClientResult(
            transcript=Transcript(
                events=recorded.events,
                final_text=recorded.final_text,
                usage=recorded.usage,
                error=recorded.error,
                evidence=evidence,
            ),
            limit_hit=recorded.limit_hit,
            error=recorded.error if recorded.error_kind is not None else None,
            error_kind="agent" if recorded.error_kind == "agent" else None,
            agent_duration_ms=recorded.duration_ms,
            metadata=metadata,
            diagnostics={"inputDiffers": str(asked)[:500]} if differs else None,
        )
