"""`--only` and `--reuse` of `mst grade`: which cases are graded, and whose verdicts are taken over."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Protocol

from mst.errors import UsageError
from mst.model.keys import source_stem
from mst.model.run import Selection
from mst.runs.folder import RunFolder
from mst.runs.inputs import GradeInputs
from mst.runs.locate import regrades_of
from mst.runs.narrowed import chosen, narrow, read_only, selection_of


class Asked(Protocol):
    """What of the command line matters here."""

    @property
    def mode(self) -> str:
        """`new`, `resume` or `attach`."""
        ...

    @property
    def only(self) -> Sequence[str]:
        """Words of `--only`."""
        ...

    @property
    def reuse(self) -> RunFolder | None:
        """The grading of `--reuse`."""
        ...


def narrowed(
    folder: RunFolder, inputs: GradeInputs, asked: Asked, scratch: Path
) -> tuple[GradeInputs, Selection | None]:
    """The inputs of a grading with only the cases that are meant, and how it is narrowed.

    A regrade that is resumed stays narrowed as it was.

    Raises:
        UsageError: `--only` with a resume, not well-formed, or no case is left.
    """
    if asked.mode == "new":
        if not asked.only:
            return inputs, None
        only = read_only(asked.only)
        case_ids = chosen(folder, only)
        return narrow(inputs, case_ids, scratch), selection_of(only, case_ids, folder.source.run().selection)
    if asked.only:
        raise UsageError("--only narrows a new regrade; what is resumed stays as it is")
    selection = folder.run().selection if folder.path != folder.source.path else None
    if selection is None or not selection.only or selection.cases is None:
        return inputs, None
    return narrow(inputs, selection.cases, scratch), selection


def reusable(folder: RunFolder, asked: Asked) -> RunFolder | None:
    """The grading whose verdicts are taken over: the one named, or for a regrade that is resumed the one it began with.

    Raises:
        UsageError: it is of other trials, or the one it began with is gone.
    """
    if asked.reuse is not None:
        if source_stem(asked.reuse.run_id) != source_stem(folder.run_id):
            raise UsageError(f"--reuse {asked.reuse.run_id}: it graded other trials than those of {folder.run_id}")
        return asked.reuse
    grading = folder.run().grading if asked.mode != "new" else None
    if grading is None or grading.reused_from is None:
        return None
    for found in [folder.source, *regrades_of(folder.source)]:
        if found.run_id == grading.reused_from:
            return found
    raise UsageError(f"{folder.run_id} took verdicts of {grading.reused_from}, which is gone; make a new regrade")
