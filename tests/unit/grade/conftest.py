from __future__ import annotations

import asyncio
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from mst.config.files import IndexedFiles
from mst.grade.contract import Grader, Pair
from mst.grade.live import Live
from mst.judges.contract import Subject
from mst.model.case import EvalPlan, GraderSpec, StageTimeouts, Variant
from mst.model.keys import ComparisonKey, TrialKey
from mst.model.score import ComparisonGrading, TrialGrading
from mst.process.redact import Redactor
from mst.testing.judge import write_files

PLAN = EvalPlan(
    name="e",
    config_id="c",
    content_hash="h",
    variants=[Variant(name="a"), Variant(name="b")],
    baseline="a",
    stage_timeouts=StageTimeouts(score_s=20.0),
)


class Bench:
    """A live source with files of its own and the ways to call it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.files = IndexedFiles()
        self.secrets: dict[str, str] = {}
        self.score_s = 20.0
        self.memory_bytes = 2 * 1024**3
        self.earlier: dict[str, TrialGrading | ComparisonGrading] = {}

    def live(self) -> Live:
        plan = PLAN.model_copy(update={"stage_timeouts": StageTimeouts(score_s=self.score_s)})
        return Live(
            plan,
            files=self.files,
            secrets=self.secrets,
            scratch=self.folder / "scratch",
            redactor=Redactor(self.secrets.values()),
            earlier=lambda key: self.earlier.get(str(key)),
            memory_bytes=self.memory_bytes,
        )

    def program(self, source: str, *, role: str = "judge", name: str = "j", **spec: Any) -> Grader:
        """A judge that is a Python program with this source."""
        refs = write_files(self.folder / name, {f"{name}.py": source}, self.files)
        made = GraderSpec(type="command", name=name, options={"argv": ["{{python}}", f"{name}.py"]}, files=refs, **spec)
        return Grader(name=f"{role}.{name}", role=role, spec=made)

    def checks(self, source: str) -> Grader:
        """A case's own scorer with this source."""
        refs = write_files(self.folder / "case", {"checks.py": source}, self.files)
        return Grader(name="checks", role="checks", spec=GraderSpec(type="checks", files=refs))

    def trial(self, subject: Subject, *graders: Grader) -> TrialGrading:
        record = subject.record
        key = TrialKey(variant=record.variant, case_id=record.case_id, trial=record.trial)
        return asyncio.run(self.live().trial(key, subject, graders))

    def comparison(self, pair: Pair, *judges: Grader) -> ComparisonGrading:
        key = ComparisonKey(candidate=pair.candidate, case_id=pair.case.id)
        return asyncio.run(self.live().comparison(key, pair, judges))

    def left(self) -> list[Path]:
        scratch = self.folder / "scratch"
        return list(scratch.iterdir()) if scratch.exists() else []


def assertion(type_: str, **options: Any) -> Grader:
    return Grader(name=type_, role="assertion", spec=GraderSpec(type=type_, options=options))


def pair_of(baseline: Mapping[int, Subject] | list[Subject], candidate: list[Subject]) -> Pair:
    return Pair(case=candidate[0].case, candidate="b", baseline_trials=list(baseline), candidate_trials=candidate)


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return Bench(tmp_path)


@pytest.fixture(name="assertion")
def assertion_fixture():
    return assertion


@pytest.fixture(name="pair_of")
def pair_of_fixture():
    return pair_of
