from __future__ import annotations

from pathlib import Path

import pytest

from mst.config.files import IndexedFiles
from mst.judges.pairwise_rubric import RubricPairwise
from mst.model.case import GraderSpec
from mst.testing.judge import PairwiseContract
from mst.testing.modelscript import Call, Reply, preference
from mst.testing.modelserver import model_server


def longer(call: Call) -> Reply:
    first = call.prompt.index("a long answer") < call.prompt.index("short")
    return preference("first" if first else "second", strength=1)


class TestRubricPairwise(PairwiseContract):
    make = RubricPairwise

    @pytest.fixture(autouse=True)
    def _server(self):
        with model_server(longer) as server:
            self.url = server.openai_url
            yield

    def spec(self, behaviour: str, files: IndexedFiles, folder: Path) -> GraderSpec:
        return GraderSpec(type="rubric", options={"model": "m", "base_url": self.url})
