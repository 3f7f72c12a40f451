from __future__ import annotations

from pathlib import Path

from mst.config.files import IndexedFiles
from mst.judges.smaller_diff import SmallerDiff
from mst.model.case import GraderSpec
from mst.testing.judge import PairwiseContract


class TestSmallerDiff(PairwiseContract):
    make = SmallerDiff

    def spec(self, behaviour: str, files: IndexedFiles, folder: Path) -> GraderSpec:
        return GraderSpec(type="smaller_diff")
