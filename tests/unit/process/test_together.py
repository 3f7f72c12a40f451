from __future__ import annotations

import asyncio
import re
from pathlib import Path

import pytest

import mst
from mst.process.together import together


class Endless:
    """Waits until it is cancelled; ending takes it a few turns of the loop."""

    def __init__(self):
        self.begun = self.ended = 0
        self.two_begun = asyncio.Event()

    async def run(self):
        self.begun += 1
        if self.begun == 2:
            self.two_begun.set()
        try:
            await asyncio.Event().wait()
        finally:
            for _ in range(3):
                await asyncio.sleep(0)
            self.ended += 1


async def later(value):
    await asyncio.sleep(0)
    return value


async def fails():
    await asyncio.sleep(0)
    try:
        raise KeyError("cause")
    except KeyError as error:
        raise OSError("the disk is full") from error


@pytest.mark.parametrize("count", [0, 1, 2, 5])
def test_results_come_in_the_order_given(count):
    async def go():
        return await together(later(number) for number in range(count))

    assert asyncio.run(go()) == list(range(count))


@pytest.mark.parametrize("beside", [0, 1, 4])
def test_the_first_failure_is_raised_plainly_after_the_others_have_ended(beside):
    endless = Endless()

    async def go():
        with pytest.raises(OSError, match="full") as caught:
            await together([*(endless.run() for _ in range(beside)), fails()])
        return caught.value, endless.begun, endless.ended, len(asyncio.all_tasks())

    error, begun, ended, tasks = asyncio.run(go())
    assert isinstance(error.__cause__, KeyError)
    assert not isinstance(error.__context__, BaseExceptionGroup)
    assert (begun, ended, tasks) == (beside, beside, 1)


def test_of_two_failures_the_first_counts():
    async def on_its_way_out():
        try:
            await asyncio.Event().wait()
        finally:
            raise ValueError("second")

    async def go():
        with pytest.raises(OSError, match="full"):
            await together([on_its_way_out(), fails()])

    asyncio.run(go())


def test_cancelling_it_ends_all_of_them():
    endless = Endless()

    async def go():
        waiting = asyncio.create_task(together([endless.run(), endless.run()]))
        await endless.two_begun.wait()
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
        return endless.ended, len(asyncio.all_tasks())

    assert asyncio.run(go()) == (2, 1)


def test_nobody_gathers_what_a_failure_would_leave_running():
    gathers = re.compile(r"asyncio\.gather\((?!.*return_exceptions=True\))")
    product = [path for path in Path(mst.__file__).parent.rglob("*.py") if "testing" not in path.parts]
    assert [path.name for path in product if gathers.search(path.read_text())] == []
