"""Judges that ask models, through the live source: what one grading of many trials meets together."""

from __future__ import annotations

import asyncio

import pytest

from mst.grade.breaker import STOP_AFTER
from mst.grade.contract import Grader
from mst.model.case import GraderSpec
from mst.model.keys import ComparisonKey, TrialKey
from mst.testing.judge import make_subject
from mst.testing.modelscript import EXPIRED_KEY, NO_MONEY, Call, Reply, in_turn, preference, verdict
from mst.testing.modelserver import model_server


def judge(server, *, role: str = "judge", name: str = "q", **settings) -> Grader:
    spec = GraderSpec(
        type="rubric",
        name=name,
        options={"model": "m", "base_url": server.openai_url},
        **{"timeout_s": 20.0, **settings},
    )
    return Grader(name=f"{'judge' if role == 'judge' else 'pairwise'}.{name}", role=role, spec=spec)


def grade(live, subjects, *graders):
    async def one_by_one():
        found = []
        for subject in subjects:
            record = subject.record
            key = TrialKey(variant=record.variant, case_id=record.case_id, trial=record.trial)
            found.append(await live.trial(key, subject, graders))
        await live.aclose()
        return found

    return asyncio.run(one_by_one())


def subjects(tmp_path, count):
    return [make_subject(tmp_path, trial=number) for number in range(count)]


@pytest.mark.parametrize(("reply", "kind"), [(EXPIRED_KEY, "auth"), (NO_MONEY, "quota")])
def test_a_judge_whose_key_or_money_is_gone_is_soon_not_asked_any_more(bench, tmp_path, reply, kind):
    with model_server(reply) as server:
        found = grade(bench.live(), subjects(tmp_path, STOP_AFTER + 3), judge(server))
        assert sum(server.statuses.values()) == STOP_AFTER
    kinds = [grading.scores["judge.q"].error_kind for grading in found]
    assert kinds == [kind] * STOP_AFTER + ["stopped"] * 3
    assert "--resume" in found[-1].errors["judge.q"]
    assert all(grading.passed is None for grading in found)


def test_other_judges_go_on(bench, tmp_path):
    with model_server(EXPIRED_KEY) as bad, model_server(verdict()) as good:
        found = grade(bench.live(), subjects(tmp_path, STOP_AFTER + 2), judge(bad), judge(good, name="r"))
        assert len(good.calls) == STOP_AFTER + 2
    assert all(grading.scores["judge.r"].passed for grading in found)


def test_a_resume_asks_again_only_what_has_no_verdict(bench, tmp_path):
    trials = subjects(tmp_path, STOP_AFTER + 4)
    with model_server(in_turn([verdict(), verdict()], EXPIRED_KEY)) as server:
        first = grade(bench.live(), trials, judge(server))
        bench.earlier = {str(grading.key): grading for grading in first}
        server.script = lambda _call: verdict(0.9)
        before = sum(server.statuses.values())
        again = grade(bench.live(), trials, judge(server))
        assert sum(server.statuses.values()) - before == len(trials) - 2
    assert [grading.scores["judge.q"].score for grading in again] == [1.0, 1.0] + [0.9] * (len(trials) - 2)


def test_a_refusal_is_a_matter_of_the_case_and_stops_nothing(bench, tmp_path):
    with model_server(Reply(refusal="no")) as server:
        found = grade(bench.live(), subjects(tmp_path, STOP_AFTER + 3), judge(server))
    assert {grading.scores["judge.q"].error_kind for grading in found} == {"refusal"}


def test_repetitions_and_tokens_add_up(bench, tmp_path):
    with model_server(in_turn([verdict(1), verdict(0)], verdict(1))) as server:
        (grading,) = grade(bench.live(), subjects(tmp_path, 1), judge(server, reps=3))
        score = grading.scores["judge.q"]
    assert score.scores == [1.0, 0.0, 1.0]
    assert score.high_variance
    assert score.usage.input_tokens == server.tokens["in"]
    assert (score.judge_model, score.judge_provider) == ("m", "openai")


def test_a_secret_that_the_model_quotes_is_redacted(bench, tmp_path):
    bench.secrets["OTHER"] = "hunter2-hunter2"
    with model_server(verdict(1, "the key hunter2-hunter2 is exposed")) as server:
        (grading,) = grade(bench.live(), subjects(tmp_path, 1), judge(server))
    assert grading.scores["judge.q"].reasoning == "the key [redacted] is exposed"


def compare(bench, pair, *judges):
    live = bench.live()

    async def run():
        found = await live.comparison(ComparisonKey(candidate=pair.candidate, case_id=pair.case.id), pair, judges)
        await live.aclose()
        return found

    return asyncio.run(run())


def sides(tmp_path, trials):
    return tuple(
        [make_subject(tmp_path, text=f"{name} says {name * 3}", variant=name, trial=number) for number in range(trials)]
        for name in ("a", "b")
    )


def prefers_b(call: Call) -> Reply:
    return preference("first" if call.prompt.index("b says") < call.prompt.index("a says") else "second", strength=0.8)


@pytest.mark.parametrize(("pairing", "pairs"), [("index", 2), ("last", 1), ("all", 4)])
def test_each_pair_is_asked_in_both_orders_as_often_as_said(bench, tmp_path, pair_of, pairing, pairs):
    with model_server(prefers_b) as server:
        found = compare(bench, pair_of(*sides(tmp_path, 2)), judge(server, role="pairwise", reps=2, pairing=pairing))
        assert len(server.calls) == pairs * 2 * 2
    preferred = found.preferences["pairwise.q"]
    assert (preferred.preference, preferred.consistent, preferred.strength) == ("candidate", True, 0.8)
    assert preferred.usage.input_tokens == server.tokens["in"]


def test_one_that_always_takes_the_first_slot_decides_nothing(bench, tmp_path, pair_of):
    with model_server(preference("first", strength=1)) as server:
        preferred = compare(bench, pair_of(*sides(tmp_path, 1)), judge(server, role="pairwise")).preferences[
            "pairwise.q"
        ]
    assert (preferred.preference, preferred.consistent) == ("tie", False)


def test_only_the_call_that_failed_is_made_again(bench, tmp_path, pair_of):
    pair = pair_of(*sides(tmp_path, 1))
    with model_server(in_turn([preference("tie", strength=0)], Reply(text="?"))) as server:
        pairwise = judge(server, role="pairwise")
        first = compare(bench, pair, pairwise)
        assert first.preferences["pairwise.q"].error_kind == "answer"
        bench.earlier[str(first.key)] = first
        server.script = lambda _call: preference("tie", strength=0)
        again = compare(bench, pair, pairwise)
        assert len(server.calls) == 3
    assert again.preferences["pairwise.q"].preference == "tie"


def test_pairwise_judges_are_stopped_too(bench, tmp_path, pair_of):
    with model_server(EXPIRED_KEY) as server:
        found = compare(bench, pair_of(*sides(tmp_path, 4)), judge(server, role="pairwise"))
        assert sum(server.statuses.values()) == STOP_AFTER
    assert [call.error_kind for call in found.preferences["pairwise.q"].pairs] == ["auth"] * 5 + ["stopped"] * 3
