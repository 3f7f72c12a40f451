from __future__ import annotations

import asyncio
import threading

import pytest

from mst.process.finishing import in_thread


def test_what_the_thread_returns_or_raises_comes_back():
    async def go():
        assert await in_thread(divmod, 7, 2) == (3, 1)
        with pytest.raises(ZeroDivisionError):
            await in_thread(divmod, 7, 0)

    asyncio.run(go())


@pytest.mark.parametrize("times", [1, 3])
def test_however_often_it_is_cancelled_the_thread_is_waited_for(times):
    release, entered, ended = threading.Event(), threading.Event(), []

    def work():
        entered.set()
        release.wait(10)
        ended.append(True)
        raise OSError("too late to matter")

    async def go():
        task = asyncio.ensure_future(in_thread(work))
        await asyncio.to_thread(entered.wait, 10)
        for _ in range(times):
            task.cancel()
            await asyncio.sleep(0)
            await asyncio.sleep(0)
            assert not task.done()
        release.set()
        with pytest.raises(asyncio.CancelledError) as cancelled:
            await task
        assert ended == [True]
        assert isinstance(cancelled.value.__cause__, OSError)

    asyncio.run(go())
