"""Cases as a file of results has them: for grading what others collected without writing cases down again."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from pydantic import Field

from mst.clients.imports.index import Format, Index, index_of_paths
from mst.config.caseconfig import read_case
from mst.config.datasets import DatasetContext
from mst.config.source import Source
from mst.config.written import Written
from mst.model.case import Case


class ImportDataset:
    """One case for each ID in the file: its input, `expected.answer`, metadata, and as many trials as the file has."""

    class Options(Written):
        """Options of `import`."""

        path: str
        """Relative to the config: a log of Inspect, output of promptfoo, or JSON lines."""
        format: Format = "auto"
        """`inspect`, `promptfoo` or `jsonl`; found out unless given."""
        case_id: str | None = Field(default=None, pattern=r"^[^.]+(\.[^.]+)*$")
        """As for the client `import`."""

    def __init__(self, options: ImportDataset.Options) -> None:
        self.options = options

    def default_name(self) -> str:
        """The file's name without its ending."""
        return Path(self.options.path).stem

    def cases(self, context: DatasetContext) -> Iterator[tuple[Case, str]]:
        """See `Dataset.cases`. Cases come in the file's order."""
        path = context.origin.root / self.options.path
        if not path.is_file():
            context.origin.fault(context.keys, f"no such file: {path}")
            return
        index = index_of_paths([path], format=self.options.format, case_id=self.options.case_id)
        source = Source(path=path, name=str(path), data=None, marks={})
        origin = context.origin.at(source, path.parent)
        for case_id in index.cases:
            case = read_case(_written(index, case_id), origin, dataset=context.name)
            if case is not None:
                yield case, f"{path}: case {case_id!r}"


def _written(index: Index, case_id: str) -> dict[str, Any]:
    recorded = index.first(case_id)
    trials = index.most_trials(case_id)
    found: dict[str, Any] = {"id": case_id, "input": recorded.input or "", "metadata": recorded.metadata}
    if recorded.expected is not None:
        found["expected"] = {"answer": recorded.expected}
    if trials > 1:
        found["trials"] = trials
    return found
