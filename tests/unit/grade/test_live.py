from __future__ import annotations

import asyncio

import pytest

from mst.errors import GraderError, InvariantError
from mst.grade.contract import Grader
from mst.model.case import GraderSpec
from mst.model.keys import ComparisonKey, TrialKey
from mst.model.score import GraderScore, TrialGrading
from mst.testing.judge import make_subject

COUNTS = """
import json, pathlib, sys
place = pathlib.Path({place!r})
calls = len(list(place.iterdir()))
(place / str(calls)).touch()
question = json.load(sys.stdin)
print(json.dumps({answer}))
"""


@pytest.fixture
def counted(bench, tmp_path):
    """A judge that counts its calls in a folder; `answer` is Python that may use `calls`."""

    def make(answer: str, *, name: str = "j", role: str = "judge", **spec):
        place = tmp_path / f"calls-{name}"
        place.mkdir(exist_ok=True)
        grader = bench.program(COUNTS.format(place=str(place), answer=answer), name=name, role=role, **spec)
        return grader, lambda: len(list(place.iterdir()))

    return make


def test_scores_come_in_the_graders_order(bench, tmp_path, assertion, counted):
    judge, _ = counted('{"score": 1}')
    graders = [judge, assertion("contains_text", value="answer"), bench.checks("def check(ctx): return {'checks': []}")]
    grading = bench.trial(make_subject(tmp_path), *graders)
    assert list(grading.scores) == ["judge.j", "contains_text", "checks"]
    assert list(grading.identities) == list(grading.scores)
    assert grading.passed


def test_a_fault_of_one_grader_leaves_the_others(bench, tmp_path, assertion):
    broken = Grader(name="equals", role="assertion", spec=GraderSpec(type="equals", options={"no": 1}))
    unknown = Grader(name="x", role="assertion", spec=GraderSpec(type="no_such_assertion"))
    grading = bench.trial(make_subject(tmp_path), broken, unknown, assertion("contains_text", value="answer"))
    assert set(grading.errors) == {"equals", "x"}
    assert grading.scores["contains_text"].passed
    assert grading.passed is None


def test_verdicts_of_the_same_bytes_and_grader_are_not_asked_again(bench, tmp_path, counted):
    judge, calls = counted('{"score": 0.5 + calls / 10}')
    subject = make_subject(tmp_path)
    first = bench.trial(subject, judge)
    bench.earlier[str(first.key)] = first
    assert bench.trial(subject, judge) == first
    assert calls() == 1


@pytest.mark.parametrize("change", ["error", "digest", "identity"])
def test_anything_else_is_asked_again(bench, tmp_path, counted, change):
    judge, calls = counted('{"score": 1}')
    subject = make_subject(tmp_path)
    digest = "other" if change == "digest" else subject.digest
    score = GraderScore(passed=False, error="quota" if change == "error" else None)
    key = TrialKey(variant=subject.record.variant, case_id="case-1", trial=0)
    identity = "other" if change == "identity" else judge.identity
    bench.earlier[str(key)] = TrialGrading(
        key=key, trial_digest=digest, scores={"judge.j": score}, identities={"judge.j": identity}
    )
    assert bench.trial(subject, judge).scores["judge.j"].passed
    assert calls() == 1


def test_repetitions_are_calls_of_their_own(bench, tmp_path, counted):
    judge, calls = counted('{"score": calls / 2}', reps=3, threshold=0.5)
    score = bench.trial(make_subject(tmp_path), judge).scores["judge.j"]
    assert (score.scores, score.passed, score.high_variance) == ([0.0, 0.5, 1.0], True, True)
    assert calls() == 3
    assert score.judge_duration_ms is not None


@pytest.mark.parametrize(
    ("requires", "asked"),
    [
        (["case.expected.answer", "trial.response"], True),
        (["case.expected.criteria"], False),
        (["trial.artifacts"], False),
        (["trial.transcript.events.0.name"], False),
    ],
)
def test_a_judge_is_skipped_when_what_it_requires_is_missing(bench, tmp_path, counted, requires, asked):
    judge, calls = counted('{"score": 1}', requires=requires)
    score = bench.trial(make_subject(tmp_path), judge).scores["judge.j"]
    assert calls() == asked
    assert bool(score.skipped) is not asked
    if not asked:
        assert requires[0] in score.details


@pytest.mark.parametrize("lacking", ["baseline", "candidate"])
def test_a_pair_is_skipped_when_either_side_lacks_what_is_required(bench, tmp_path, counted, pair_of, lacking):
    judge, calls = counted('{"preference": "first"}', role="pairwise", requires=["trial.diff"])
    baseline, candidate = (
        make_subject(tmp_path, variant=side, diff=None if side == lacking else "+1")
        for side in ("baseline", "candidate")
    )
    assert bench.comparison(pair_of([baseline], [candidate]), judge).preferences["pairwise.j"].skipped
    assert calls() == 0


def test_a_path_that_can_never_exist_is_an_error(bench, tmp_path, counted):
    judge, _ = counted('{"score": 1}', requires=["expected.answer"])
    assert "must start with case. or trial." in bench.trial(make_subject(tmp_path), judge).errors["judge.j"]


def test_a_judge_without_its_secret_is_an_error_that_names_it(bench, tmp_path, counted):
    judge, calls = counted('{"score": 1}', secrets=["JUDGE_KEY"])
    assert "JUDGE_KEY" in bench.trial(make_subject(tmp_path), judge).errors["judge.j"]
    assert calls() == 0


def test_preflight_runs_once_for_each_distinct_judge(bench, tmp_path, counted):
    judge, calls = counted('{"score": 1}')
    options = {**judge.spec.options, "preflight": {"argv": judge.spec.options["argv"]}}
    graders = [
        Grader(name=name, role="judge", spec=judge.spec.model_copy(update={"options": options, "name": name}))
        for name in ("one", "two")
    ]
    live = bench.live()

    async def twice() -> None:
        await live.preflight(graders)
        await live.preflight(graders)

    with pytest.raises(GraderError, match="preflight ended with exit code 1"):
        asyncio.run(twice())  # the program wants a question on stdin, which a preflight does not get
    assert calls() == 1


def test_preflight_names_every_grader_that_cannot_work(bench, assertion):
    gone = Grader(name="judge.gone", role="judge", spec=GraderSpec(type="command", options={"argv": ["no-such-judge"]}))
    python = Grader(name="judge.py", role="judge", spec=GraderSpec(type="python", options={"call": "./a.py:f"}))
    with pytest.raises(GraderError) as raised:
        asyncio.run(bench.live().preflight([gone, python, assertion("equals", value=1), assertion("equals", no=1)]))
    lines = str(raised.value).splitlines()
    assert [line.split(":")[0] for line in lines] == ["judge.gone", "judge.py", "equals"]


def test_a_rejected_key_fails_the_preflight_and_is_not_shown(bench):
    bench.secrets["JUDGE_KEY"] = "s3cret-value"
    judge = bench.program("import os, sys; sys.exit('rejected ' + os.environ['JUDGE_KEY'])", secrets=["JUDGE_KEY"])
    options = {**judge.spec.options, "preflight": {"argv": ["{{python}}", "j.py"]}}
    grader = Grader(name="judge.j", role="judge", spec=judge.spec.model_copy(update={"options": options}))
    with pytest.raises(GraderError, match=r"judge\.j: .*rejected \[redacted\]"):
        asyncio.run(bench.live().preflight([grader]))


def sides(tmp_path, trials: int = 1, **record):
    return (
        [make_subject(tmp_path, variant="a", text="short", trial=number, **record) for number in range(trials)],
        [make_subject(tmp_path, variant="b", text="a long answer", trial=number, **record) for number in range(trials)],
    )


LENGTHS = 'len(question["first"]["response"]) > len(question["second"]["response"])'
LONGER = '{"preference": "first" if ' + LENGTHS + ' else "second"}'


def test_a_comparison_asks_in_both_orders_and_keeps_each_call(bench, tmp_path, counted, pair_of):
    judge, calls = counted(LONGER, role="pairwise")
    grading = bench.comparison(pair_of(*sides(tmp_path, trials=2)), judge)
    found = grading.preferences["pairwise.j"]
    assert (found.preference, found.consistent, found.error) == ("candidate", True, None)
    assert len(found.pairs or []) == calls() == 4
    assert len(grading.trial_digests) == 4


def test_always_the_first_is_a_tie_that_is_not_consistent(bench, tmp_path, counted, pair_of):
    judge, _ = counted('{"preference": "first"}', role="pairwise")
    found = bench.comparison(pair_of(*sides(tmp_path)), judge).preferences["pairwise.j"]
    assert (found.preference, found.consistent) == ("tie", False)


def test_without_swap_there_is_one_call_and_no_word_on_consistency(bench, tmp_path, counted, pair_of):
    judge, calls = counted('{"preference": "first"}', role="pairwise", swap=False)
    found = bench.comparison(pair_of(*sides(tmp_path)), judge).preferences["pairwise.j"]
    assert (found.preference, found.consistent, calls()) == ("baseline", None, 1)


def test_a_resume_repeats_only_the_failed_call(bench, tmp_path, counted, pair_of):
    judge, calls = counted('{"preference": "tie"} if calls != 1 else {"preference": "crash"}', role="pairwise")
    pair = pair_of(*sides(tmp_path))
    first = bench.comparison(pair, judge)
    assert "1 of 2 calls failed" in first.errors["pairwise.j"]
    bench.earlier[str(first.key)] = first
    second = bench.comparison(pair, judge)
    assert second.preferences["pairwise.j"].preference == "tie"
    assert calls() == 3
    bench.earlier[str(first.key)] = second
    assert bench.comparison(pair, judge) == second
    assert calls() == 3


def test_a_comparison_is_done_again_when_what_passed_has_changed(bench, tmp_path, counted, pair_of):
    judge, calls = counted('{"preference": "tie"}', role="pairwise", swap=False)
    first = bench.comparison(pair_of(*sides(tmp_path)), judge)
    bench.earlier[str(first.key)] = first
    baseline, candidate = sides(tmp_path, passed=True)
    again = bench.comparison(pair_of(baseline, candidate), judge).preferences["pairwise.j"]
    assert again.sides_passed == {"baseline.0": True, "candidate.0": True}
    assert calls() == 2


def test_an_unknown_pairwise_judge_is_an_error(bench, tmp_path, pair_of):
    judge = Grader(name="pairwise.x", role="pairwise", spec=GraderSpec(type="no_such"))
    assert "no_such" in bench.comparison(pair_of(*sides(tmp_path)), judge).errors["pairwise.x"]


def test_a_pure_assertion_makes_no_folder_and_starts_nothing(bench, tmp_path, assertion, monkeypatch):
    def refuse(*_: object, **__: object) -> None:
        raise AssertionError("a text assertion must not start anything")

    monkeypatch.setattr("mst.judges.folder.tempfile.mkdtemp", refuse)
    monkeypatch.setattr(asyncio, "to_thread", refuse)
    monkeypatch.setattr(asyncio, "create_subprocess_exec", refuse)
    assert bench.trial(make_subject(tmp_path), assertion("contains_text", value="answer")).passed
    assert not (tmp_path / "scratch").exists()


class Breaks:
    """Of its objects the second one's calls break by a fault of ours; those of the others end when they are ended."""

    deterministic = True
    made = ended = 0

    def __init__(self, spec):
        Breaks.made += 1
        self.number = Breaks.made

    async def preflight(self, context):
        await self._call()

    async def evaluate(self, subject, context):
        await self._call()

    async def compare(self, baseline, candidate, context, *, candidate_first):
        await self._call()

    async def _call(self):
        try:
            if self.number == 2:
                raise InvariantError("broken")
            await asyncio.Event().wait()
        finally:
            Breaks.ended += 1


@pytest.mark.parametrize("asked", ["preflight", "trial", "comparison"])
def test_graders_beside_one_that_breaks_are_ended_and_its_error_is_told_plainly(
    bench, tmp_path, monkeypatch, pair_of, asked
):
    monkeypatch.setattr("mst.grade.caller.lookup", lambda kind, name: Breaks)
    Breaks.made = Breaks.ended = 0
    role = "pairwise" if asked == "comparison" else "judge"
    graders = [Grader(name=name, role=role, spec=GraderSpec(type=name)) for name in ("a", "b", "c")]
    subject = make_subject(tmp_path)

    async def go():
        live = bench.live()
        calls = {
            "preflight": lambda: live.preflight(graders),
            "trial": lambda: live.trial(TrialKey(variant="a", case_id="c", trial=0), subject, graders),
            "comparison": lambda: live.comparison(
                ComparisonKey(candidate="b", case_id="c"), pair_of([subject], [subject]), graders
            ),
        }
        with pytest.raises(InvariantError, match=r"^broken$"):
            await calls[asked]()
        return Breaks.ended, len(asyncio.all_tasks())

    assert asyncio.run(go()) == (3, 1)
