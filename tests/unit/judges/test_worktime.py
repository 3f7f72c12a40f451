from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

import pytest

from mst.judges import worktime
from mst.judges.agentic import AgenticJudge
from mst.judges.worktime import WorkTime
from mst.model.case import GraderSpec
from mst.providers.limits import Slot
from mst.providers.patience import QUEUE_S


@dataclass
class Timer:
    at_s: float
    call: object

    def cancel(self):
        self.call = None


@dataclass
class Loop:
    """A loop whose time goes on when a test says so."""

    now_s: float = 100.0
    timers: list[Timer] = field(default_factory=list)

    def time(self):
        return self.now_s

    def call_later(self, delay_s, call):
        self.timers.append(Timer(self.now_s + delay_s, call))
        return self.timers[-1]

    def later(self, seconds):
        self.now_s += seconds
        for timer in self.timers:
            if timer.call is not None and timer.at_s <= self.now_s:
                call, timer.call = timer.call, None
                call()


class Gate:
    """A limiter that opens when a test says so."""

    def __init__(self):
        self.asked, self.open = asyncio.Event(), asyncio.Event()

    @asynccontextmanager
    async def slot(self, tokens):
        self.asked.set()
        await self.open.wait()
        yield Slot(tokens)


@pytest.fixture
def loop(monkeypatch):
    made = Loop()
    monkeypatch.setattr(worktime.asyncio, "get_running_loop", lambda: made)
    return made


@pytest.fixture
def over():
    return []


@pytest.fixture
def clock(over):
    return WorkTime(60, lambda: over.append("over"))


def asked(clock, scene):
    """Run a scene with a call that asks for its turn, and may hold it."""

    async def main():
        gate, held, done = Gate(), asyncio.Event(), asyncio.Event()

        async def call():
            async with clock.turn(gate, 10):
                held.set()
                await done.wait()

        task = asyncio.create_task(call())
        await gate.asked.wait()
        await scene(gate, held, task)
        done.set()
        await asyncio.gather(task, return_exceptions=True)

    asyncio.run(main())


def test_work_counts_and_its_end_is_told_once(loop, clock, over):
    with clock:
        loop.later(59)
        assert over == []
        loop.later(1)
        loop.later(60)
    assert over == ["over"]


def test_waiting_for_a_turn_does_not_count(loop, clock, over):
    async def scene(gate, held, task):
        loop.later(3000)
        assert over == []
        gate.open.set()
        await held.wait()
        loop.later(29)  # with the 30 s before
        assert over == []
        loop.later(1)
        assert over == ["over"]

    with clock:
        loop.later(30)
        asked(clock, scene)


def test_a_call_that_is_given_up_while_it_waits_lets_the_time_go_on(loop, clock, over):
    async def scene(gate, held, task):
        loop.later(3000)
        task.cancel()
        await asyncio.wait({task})
        loop.later(60)

    with clock:
        asked(clock, scene)
        assert over == ["over"]


def test_nobody_is_called_after_the_agents_end(loop, clock, over):
    async def scene(gate, held, task):
        clock.__exit__(None, None, None)
        gate.open.set()
        await held.wait()
        loop.later(3000)

    clock.__enter__()
    asked(clock, scene)
    assert over == []


@pytest.mark.parametrize(
    ("options", "bound_s"),
    [({"runtime": "codex", "model": "m"}, 60 + QUEUE_S), ({"argv": ["judge"]}, 60)],
)
def test_who_asks_models_itself_may_take_longer_than_it_works(options, bound_s):
    assert AgenticJudge(GraderSpec(type="agentic", options=options)).bound_s(60) == bound_s
