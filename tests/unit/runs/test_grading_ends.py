"""A grading that fails in the middle ends what is in flight itself, before anybody tears its loop down."""

import asyncio

import pytest

from mst.runs.grading import GradingWalk
from mst.shards.contract import Cancel
from mst.testing.stored_run import collect_run, write_echo_eval


class Endless:
    """Grades the first case's units; all others are in flight until they are cancelled."""

    def __init__(self, first):
        self.first = first
        self.begun = 0
        self.ended = 0
        self.two = asyncio.Event()

    async def trial(self, key, subject, graders):
        if key.case_id == self.first and key.variant == "plain":
            await self.two.wait()
            if self.first == "case-0":
                raise OSError("the disk is full")
        self.begun += 1
        if self.begun == 2:
            self.two.set()
        try:
            await asyncio.Event().wait()
        finally:
            await asyncio.sleep(0)
            self.ended += 1


@pytest.fixture
def run(tmp_path):
    return collect_run(write_echo_eval(tmp_path / "eval", concurrency=8), tmp_path / "results")


def walk(run, source):
    return GradingWalk(
        plan=run.run().plan, trials=run, source=source, variants=["plain", "polite"], cancel=Cancel()
    ).cases(run.cases())


def test_units_beside_one_that_fails_are_ended_first(run):
    source = Endless("case-0")

    async def go():
        with pytest.raises(OSError, match="full"):
            await anext(walk(run, source))
        return source.begun, source.ended, len(asyncio.all_tasks())

    begun, ended, tasks = asyncio.run(go())
    assert begun >= 2
    assert (ended, tasks) == (begun, 1)


def test_whoever_stops_in_the_middle_and_closes_it_leaves_nothing_in_flight(run):
    source = Endless("none")

    async def go():
        cases = walk(run, source)
        waiting = asyncio.ensure_future(anext(cases))
        await source.two.wait()
        waiting.cancel()
        await asyncio.wait({waiting})
        await cases.aclose()
        return source.begun, source.ended, len(asyncio.all_tasks())

    begun, ended, tasks = asyncio.run(go())
    assert begun >= 2
    assert (ended, tasks) == (begun, 1)
