"""What every judge and pairwise judge must do, as suites to subclass, and trials to try graders on."""

from __future__ import annotations

import asyncio
import dataclasses
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar

import pytest

from mst.config.files import IndexedFiles
from mst.errors import ConfigError, GraderError
from mst.judges.contract import JudgeContext, Subject
from mst.model.base import FileRef
from mst.model.case import Case, GraderSpec
from mst.model.transcript import Event, Transcript
from mst.model.trial import TrialRecord, trial_digest

VARIANT = "a-variant-that-no-judge-may-see"
RUN_ID = "20260101T000000Z-abcdef"
CALL_TIMEOUT_S = 20.0
HANG_TIMEOUT_S = 0.5


def write_files(folder: Path, files: Mapping[str, str], index: IndexedFiles) -> list[FileRef]:
    """Write texts below a folder and list them by content."""
    refs = []
    for relative, text in files.items():
        path = folder / relative
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        refs.append(index.add(folder, relative))
    return refs


def make_subject(
    folder: Path,
    *,
    text: str | None = "the answer",
    files: Mapping[str, str] | None = None,
    case: Case | None = None,
    trial: int = 0,
    variant: str = VARIANT,
    events: Sequence[Event] = (),
    passed: bool | None = None,
    **record: Any,
) -> Subject:
    """A trial with an answer and the files that it left, which are written below `folder`."""
    index = IndexedFiles()
    refs = write_files(folder / variant / str(trial), files or {}, index)
    case = case or Case(id="case-1", dataset="cases", input="question", expected={"answer": "the answer"})
    made = TrialRecord(
        run_id=RUN_ID,
        variant=variant,
        case_id=case.id,
        dataset_name=case.dataset,
        trial=trial,
        duration_ms=1.0,
        transcript=Transcript(final_text=text, events=list(events), evidence="structured"),
        artifact_files=refs,
        **record,
    )
    digest = trial_digest(made.to_json(), refs)
    return Subject(case=case, record=made, digest=digest, artifacts=index, passed=passed)


def make_context(folder: Path, files: IndexedFiles | None = None, **changes: Any) -> JudgeContext:
    """A context with a scratch folder below `folder`, without secrets unless given."""
    context = JudgeContext(
        scratch=folder / "scratch", secrets={}, files=files or IndexedFiles(), timeout_s=CALL_TIMEOUT_S
    )
    return dataclasses.replace(context, **changes)


async def closing(judge: Any, call: Awaitable[Any]) -> Any:
    """Await a judge's call, then let the judge close what it keeps open, as its caller does after the last call."""
    try:
        return await call
    finally:
        if hasattr(judge, "aclose"):
            await judge.aclose()


class _Graders:
    """What both suites need of a subclass."""

    make: ClassVar[Callable[[GraderSpec], Any]]

    def spec(self, behaviour: str, files: IndexedFiles, folder: Path) -> GraderSpec:
        """A grader that behaves in one of the ways that the suite names; its files are added to `files`."""
        raise NotImplementedError

    def made(self, behaviour: str, tmp_path: Path, **context: Any) -> tuple[Any, JudgeContext]:
        files = IndexedFiles()
        spec = self.spec(behaviour, files, tmp_path / "grader")
        return type(self).make(spec), make_context(tmp_path, files, **context)

    @staticmethod
    def left(context: JudgeContext) -> list[Path]:
        return list(context.scratch.iterdir()) if context.scratch.exists() else []


class JudgeContract(_Graders):
    """Behaviours: `good` (score 0.75, reasoning `fine`, a sub-score), `skips`, `over` (score 1.5), `nan`, `boolean`
    (score true), `garbage`, `no_score`, `crashes`, `hangs`, `echo` (everything it was given, as reasoning),
    `environment` (names of its environment's variables as reasoning), `vandal` (removes the trial's files, score 1).
    """  # noqa: D205 - one list

    def ask(self, behaviour: str, tmp_path: Path, **context: Any) -> Any:
        judge, made = self.made(behaviour, tmp_path, **context)
        subject = make_subject(tmp_path, files={"out.txt": "left by the trial\n"})
        try:
            return asyncio.run(judge.evaluate(subject, made))
        finally:
            assert self.left(made) == [], "a call left something in the scratch folder"

    def test_a_verdict_arrives_whole(self, tmp_path: Path) -> None:
        found = self.ask("good", tmp_path)
        assert (found.score, found.skipped, found.reasoning) == (0.75, False, "fine")
        assert found.sub_scores is not None
        assert found.sub_scores["style"].score == 0.5

    def test_it_may_skip(self, tmp_path: Path) -> None:
        found = self.ask("skips", tmp_path)
        assert found.skipped
        assert found.score is None

    @pytest.mark.parametrize("behaviour", ["over", "nan", "boolean", "garbage", "no_score", "crashes"])
    def test_no_usable_answer_is_an_error_and_never_a_score(self, behaviour: str, tmp_path: Path) -> None:
        with pytest.raises(GraderError) as raised:
            self.ask(behaviour, tmp_path)
        assert str(tmp_path) not in str(raised.value)

    def test_one_that_hangs_is_ended(self, tmp_path: Path) -> None:
        started = time.monotonic()
        with pytest.raises(GraderError, match=r"did not end within 0\.5 s"):
            self.ask("hangs", tmp_path, timeout_s=HANG_TIMEOUT_S)
        assert time.monotonic() - started < 15

    def test_it_does_not_learn_the_variant(self, tmp_path: Path) -> None:
        found = self.ask("echo", tmp_path)
        assert "the answer" in found.reasoning
        assert VARIANT not in found.reasoning

    def test_it_gets_listed_secrets_and_no_other_environment(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("NOT_FOR_JUDGES", "x")
        found = self.ask("environment", tmp_path, secrets={"JUDGE_KEY": "value"})
        assert "JUDGE_KEY" in found.reasoning
        assert "NOT_FOR_JUDGES" not in found.reasoning

    def test_it_cannot_change_what_the_trial_left(self, tmp_path: Path) -> None:
        assert self.ask("vandal", tmp_path).score == 1
        assert (tmp_path / VARIANT / "0" / "out.txt").read_text() == "left by the trial\n"

    def test_calls_run_side_by_side(self, tmp_path: Path) -> None:
        judge, context = self.made("echo", tmp_path)
        subjects = [make_subject(tmp_path, text=f"answer {number}", trial=number) for number in range(3)]

        async def ask_all() -> list[Any]:
            return await asyncio.gather(*(judge.evaluate(subject, context) for subject in subjects))

        for number, found in enumerate(asyncio.run(ask_all())):
            assert f"answer {number}" in found.reasoning

    def test_unknown_options_are_refused(self, tmp_path: Path) -> None:
        spec = self.spec("good", IndexedFiles(), tmp_path / "grader")
        with pytest.raises(ConfigError, match="no_such_option"):
            type(self).make(spec.model_copy(update={"options": {**spec.options, "no_such_option": 1}}))

    def test_preflight_passes_when_all_is_there(self, tmp_path: Path) -> None:
        judge, context = self.made("good", tmp_path)
        asyncio.run(judge.preflight(context))
        assert self.left(context) == []

    def test_preflight_names_a_secret_without_a_value(self, tmp_path: Path) -> None:
        files = IndexedFiles()
        spec = self.spec("good", files, tmp_path / "grader").model_copy(update={"secrets": ["JUDGE_KEY"]})
        with pytest.raises(GraderError, match="JUDGE_KEY"):
            asyncio.run(type(self).make(spec).preflight(make_context(tmp_path, files)))

    def test_cancelling_a_call_leaves_nothing(self, tmp_path: Path) -> None:
        judge, context = self.made("hangs", tmp_path)
        subject = make_subject(tmp_path)

        async def cancel() -> None:
            task = asyncio.create_task(judge.evaluate(subject, context))
            deadline = time.monotonic() + 10
            while not self.left(context) and time.monotonic() < deadline:  # noqa: ASYNC110 - a folder sets no event
                await asyncio.sleep(0.01)
            assert self.left(context)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task

        asyncio.run(cancel())
        assert self.left(context) == []


class PairwiseContract(_Graders):
    """Behaviour `content`: prefers the side that `sides` makes the better one, wherever it stands."""

    def sides(self, tmp_path: Path) -> tuple[Subject, Subject]:
        """Two trials of one case, the first the better one."""
        longer = make_subject(tmp_path, text="a long answer", variant="v-one", diff=_diff(1), passed=True)
        shorter = make_subject(tmp_path, text="short", variant="v-two", diff=_diff(3), passed=True)
        return longer, shorter

    def compare(self, behaviour: str, tmp_path: Path, *, candidate_first: bool, better: str = "baseline") -> Any:
        judge, context = self.made(behaviour, tmp_path)
        good, bad = self.sides(tmp_path)
        baseline, candidate = (good, bad) if better == "baseline" else (bad, good)
        asked = judge.compare(baseline, candidate, context, candidate_first=candidate_first)
        try:
            return asyncio.run(closing(judge, asked))
        finally:
            assert self.left(context) == [], "a call left something in the scratch folder"

    @pytest.mark.parametrize("candidate_first", [False, True])
    @pytest.mark.parametrize("better", ["baseline", "candidate"])
    def test_the_better_side_wins_in_either_order(self, better: str, candidate_first: bool, tmp_path: Path) -> None:
        found = self.compare("content", tmp_path, candidate_first=candidate_first, better=better)
        assert found.preference == better
        assert not found.skipped

    def test_unknown_options_are_refused(self, tmp_path: Path) -> None:
        spec = self.spec("content", IndexedFiles(), tmp_path / "grader")
        with pytest.raises(ConfigError, match="no_such_option"):
            type(self).make(spec.model_copy(update={"options": {**spec.options, "no_such_option": 1}}))

    def test_preflight_passes_when_all_is_there(self, tmp_path: Path) -> None:
        judge, context = self.made("content", tmp_path)
        asyncio.run(judge.preflight(context))

    def test_it_says_whether_its_order_matters(self) -> None:
        assert isinstance(getattr(type(self).make, "deterministic", None), bool)


class ProgramPairwiseContract(PairwiseContract):
    """Further behaviours: `first` (always the first), `skips`, `garbage`, `other` (names no side), `strong` (strength
    2), `crashes`, `hangs`, `echo` (prefers first, everything it was given as reasoning).
    """  # noqa: D205 - one list

    def test_positions_are_mapped_back_to_sides(self, tmp_path: Path) -> None:
        assert self.compare("first", tmp_path, candidate_first=False).preference == "baseline"
        assert self.compare("first", tmp_path, candidate_first=True).preference == "candidate"

    def test_it_may_skip(self, tmp_path: Path) -> None:
        found = self.compare("skips", tmp_path, candidate_first=False)
        assert found.skipped
        assert found.preference is None

    @pytest.mark.parametrize("behaviour", ["garbage", "other", "strong", "crashes"])
    def test_no_usable_answer_is_an_error(self, behaviour: str, tmp_path: Path) -> None:
        with pytest.raises(GraderError):
            self.compare(behaviour, tmp_path, candidate_first=False)

    def test_one_that_hangs_is_ended(self, tmp_path: Path) -> None:
        judge, context = self.made("hangs", tmp_path, timeout_s=HANG_TIMEOUT_S)
        baseline, candidate = self.sides(tmp_path)
        with pytest.raises(GraderError, match=r"did not end within 0\.5 s"):
            asyncio.run(judge.compare(baseline, candidate, context, candidate_first=False))

    @pytest.mark.parametrize("candidate_first", [False, True])
    def test_the_sides_have_neutral_names(self, candidate_first: bool, tmp_path: Path) -> None:
        found = self.compare("echo", tmp_path, candidate_first=candidate_first)
        assert "a long answer" in found.reasoning
        for word in ("v-one", "v-two", "baseline", "candidate"):
            assert word not in found.reasoning


def _diff(lines: int) -> str:
    added = "".join(f"+line {number}\n" for number in range(lines))
    return f"--- a/mod.py\n+++ b/mod.py\n@@ -0,0 +1,{lines} @@\n{added}"
