from __future__ import annotations

import asyncio

import pytest

from mst.grade.breaker import STOP_AFTER, TERMINAL, Breaker
from mst.grade.contract import Grader
from mst.model.case import GraderSpec


def judge(name: str) -> Grader:
    return Grader(
        name=f"judge.{name}", role="judge", spec=GraderSpec(type="rubric", name=name, options={"model": name})
    )


A, B = judge("a"), judge("b")


def failed(breaker, grader, kind, message):
    asyncio.run(breaker.failed(grader, kind, message))


@pytest.mark.parametrize("kind", sorted(TERMINAL))
def test_faults_of_one_terminal_kind_stop_that_judge_alone_and_say_why(kind):
    breaker = Breaker()
    for _ in range(STOP_AFTER):
        assert breaker.stopped(A) is None
        failed(breaker, A, kind, "the reason")
    assert "the reason" in breaker.stopped(A)
    assert "--resume" in breaker.stopped(A)
    assert breaker.stopped(B) is None


@pytest.mark.parametrize("kind", ["grader", "answer", "refusal", "timeout", "server", "request"])
def test_faults_of_a_case_never_stop_a_judge(kind):
    breaker = Breaker()
    for _ in range(STOP_AFTER * 3):
        failed(breaker, A, kind, "x")
    assert breaker.stopped(A) is None


def test_a_verdict_in_between_starts_the_count_afresh():
    breaker = Breaker()
    for _ in range(STOP_AFTER * 3):
        failed(breaker, A, "auth", "x")
        breaker.answered(A)
    assert breaker.stopped(A) is None


def test_different_kinds_are_counted_apart():
    breaker = Breaker(2)
    failed(breaker, A, "auth", "x")
    failed(breaker, A, "quota", "x")
    assert breaker.stopped(A) is None
    failed(breaker, A, "quota", "x")
    assert "quota" in breaker.stopped(A)


def test_once_stopped_it_stays_stopped():
    breaker = Breaker(1)
    failed(breaker, A, "auth", "first")
    breaker.answered(A)
    failed(breaker, A, "quota", "second")
    assert "first" in breaker.stopped(A)


def test_a_fault_is_over_once_whoever_counts_elsewhere_has_counted_it():
    async def scene():
        told, counted = asyncio.Event(), asyncio.Event()

        async def tell(judge, _kind, _message):
            told.set()
            await counted.wait()
            breaker.stop(judge, "gone")

        breaker = Breaker(failed=tell)
        fault = asyncio.create_task(breaker.failed(A, "auth", "no key"))
        await told.wait()
        assert not fault.done()
        counted.set()
        await fault
        return breaker.stopped(A)

    assert asyncio.run(scene()) == "gone"
