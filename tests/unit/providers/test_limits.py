from __future__ import annotations

import asyncio
import itertools

import pytest

from mst.providers.limits import MARGIN, SLACK_S, Limiter, Limits, Pace


def test_starts_are_evenly_spaced():
    pace = Pace(60)
    waits = [pace.reserve(1, 100.0) for _ in range(4)]
    assert waits == pytest.approx([0, *(n / MARGIN - SLACK_S for n in (1, 2, 3))])


def test_time_that_went_by_unused_is_not_made_up_for():
    pace = Pace(60)
    pace.reserve(1, 0.0)
    late = [pace.reserve(1, 1000.0) for _ in range(3)]
    assert late == pytest.approx([0, 1 / MARGIN - SLACK_S, 2 / MARGIN - SLACK_S])


def test_large_calls_take_longer_and_estimates_are_corrected():
    pace = Pace(6000)
    pace.reserve(500, 0.0)
    pace.correct(-500)
    assert pace.reserve(1, 0.0) == 0
    pace.correct(1000)
    assert pace.reserve(1, 0.0) == pytest.approx((1 + 1000) * 60 / (6000 * MARGIN) - SLACK_S, abs=0.02)


def run_many(limiter: Limiter, calls: int, *, tokens: int = 0, used: int | None = None) -> list[tuple[float, float]]:
    spans = []

    async def one() -> None:
        clock = asyncio.get_running_loop().time
        async with limiter.slot(tokens) as slot:
            start = clock()
            await asyncio.sleep(0.005)
            slot.used = used
            spans.append((start, clock()))

    async def everything() -> None:
        await asyncio.gather(*(one() for _ in range(calls)))

    asyncio.run(everything())
    return spans


def test_no_more_calls_run_at_a_time_than_allowed():
    spans = run_many(Limiter(concurrent=2), 8)
    for start, _ in spans:
        assert sum(begin <= start < end for begin, end in spans) <= 2


def test_calls_a_minute_are_kept():
    starts = sorted(start for start, _ in run_many(Limiter(per_minute=6000), 60))
    assert starts[-1] - starts[0] >= 59 * 0.01 - SLACK_S
    assert all(later >= earlier for earlier, later in itertools.pairwise(starts))


def test_tokens_a_minute_are_kept():
    starts = sorted(start for start, _ in run_many(Limiter(tokens_per_minute=60_000), 8, tokens=100, used=100))
    assert starts[-1] - starts[0] >= 7 * 0.1 - SLACK_S - 0.01


def test_a_pause_holds_every_call():
    limiter = Limiter()

    async def held() -> float:
        clock = asyncio.get_running_loop().time
        before = clock()
        limiter.pause(0.1)
        async with limiter.slot(1):
            return clock() - before

    assert asyncio.run(held()) >= 0.1


def test_a_call_that_fails_gives_its_place_back():
    limiter = Limiter(concurrent=1)

    async def failing() -> bool:
        with pytest.raises(RuntimeError):
            async with limiter.slot(1):
                raise RuntimeError
        async with asyncio.timeout(5), limiter.slot(1):
            return True

    assert asyncio.run(failing())


def test_limiters_are_made_once_by_name_and_without_limits_when_nothing_is_said():
    limits = Limits({"openai": {"concurrent": 5, "per_minute": 100}})
    assert limits.named("openai") is limits.named("openai")
    assert limits.named("openai")._calls.per_minute == 100
    assert limits.named("openai")._room._value == 5
    assert limits.named("other")._calls is None
