from __future__ import annotations

import asyncio
from typing import Any

import pytest

from mst.judges.pairwise_rubric import RubricPairwise
from mst.judges.rubric import RubricJudge
from mst.model.case import GraderSpec
from mst.testing.judge import closing, make_context, make_subject
from mst.testing.modelserver import ModelServer

KEY = "sk-judge-0123456789"


class ModelBench:
    """Ways to ask judges about a trial, over HTTP to a scripted server."""

    def __init__(self, folder) -> None:
        self.folder = folder
        self.secrets = {"JUDGE_KEY": KEY}
        self.context: dict[str, Any] = {}

    def endpoint(self, server: ModelServer, dialect: str = "openai", model: str = "m") -> dict[str, Any]:
        url = server.openai_url if dialect == "openai" else server.url
        return {"model": model, "provider": dialect, "base_url": url, "api_key": "JUDGE_KEY"}

    def spec(self, server: ModelServer, dialect: str = "openai", *, retries: int = 0, **options: Any) -> GraderSpec:
        return GraderSpec(
            type="rubric", name="r", retries=retries, options={**self.endpoint(server, dialect), **options}
        )

    def run(self, judge: Any, call: Any) -> Any:
        return asyncio.run(closing(judge, call))

    def made_context(self) -> Any:
        return make_context(self.folder, secrets=self.secrets, **self.context)

    def ask(self, server: ModelServer, dialect: str = "openai", *, subject: Any = None, **spec: Any) -> Any:
        judge = RubricJudge(self.spec(server, dialect, **spec))
        return self.run(judge, judge.evaluate(subject or make_subject(self.folder), self.made_context()))

    def preflight(self, server: ModelServer, dialect: str = "openai", **spec: Any) -> None:
        judge = RubricJudge(self.spec(server, dialect, **spec))
        self.run(judge, judge.preflight(self.made_context()))

    def compare(self, server: ModelServer, *, candidate_first: bool = False, **spec: Any) -> Any:
        judge = RubricPairwise(self.spec(server, **spec))
        one = make_subject(self.folder, text="a long answer", variant="v-one")
        two = make_subject(self.folder, text="short", variant="v-two")
        return self.run(judge, judge.compare(one, two, self.made_context(), candidate_first=candidate_first))


@pytest.fixture
def models(tmp_path) -> ModelBench:
    return ModelBench(tmp_path)
