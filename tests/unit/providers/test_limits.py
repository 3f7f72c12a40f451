from __future__ import annotations

import asyncio
import itertools
import threading

import pytest

from mst.providers.limits import Limiter, Limits
from mst.providers.rates import SLACK_MS, Rate

SLACK_S = SLACK_MS / 1000


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


async def starts_after(limiter: Limiter, hold_up, calls: int) -> list[float]:
    """Ask for some calls, hold them up, and note when they started."""
    clock = asyncio.get_running_loop().time
    starts: list[float] = []

    async def one() -> None:
        async with limiter.slot(1):
            starts.append(clock())

    tasks = [asyncio.create_task(one()) for _ in range(calls)]
    await asyncio.sleep(0)
    await hold_up()
    await asyncio.gather(*tasks)
    return starts


def test_calls_that_waited_while_this_process_stood_still_do_not_start_together():
    async def stand_still() -> None:
        threading.Event().wait(1.0)  # the whole loop, as on a machine that has no time for it

    starts = asyncio.run(starts_after(Limiter(per_minute=1200), stand_still, 25))
    for start in starts:
        # one, and those that make up for 0.2 s of lost time
        assert sum(start <= other < start + 0.05 for other in starts) <= 1 + 5


def test_calls_that_waited_for_a_pause_to_end_do_not_start_together():
    limiter = Limiter(per_minute=1200)

    async def pause() -> None:
        limiter.pause(0.5)

    starts = asyncio.run(starts_after(limiter, pause, 12))
    held = [start for start in starts if start >= starts[0] + 0.4]
    assert len(held) >= 6
    assert held[-1] - held[0] >= (len(held) - 1) * 0.05 - SLACK_S


def test_a_call_that_is_not_wanted_any_more_lets_the_next_one_start():
    limiter = Limiter(concurrent=1)

    async def cancelled() -> bool:
        async with limiter.slot(1):
            second = asyncio.create_task(limiter.slot(1).__aenter__())
            await asyncio.sleep(0)
            second.cancel()
            await asyncio.gather(second, return_exceptions=True)
        async with asyncio.timeout(5), limiter.slot(1):
            return True

    assert asyncio.run(cancelled())


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
    assert limits.named("openai").rate == Rate("model", concurrent=5, per_minute=100)
    assert limits.named("other").rate == Rate("model")
