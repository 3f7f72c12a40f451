"""What must come to its end although whoever waits for it is cancelled: a thread, a child's start, a session's end."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")


async def wait_out(work: asyncio.Future[Any]) -> asyncio.CancelledError | None:
    """Wait until it is done, however often this task is cancelled meanwhile.

    Returns:
        The cancellation, for the caller to raise when it has tidied up.
    """
    interrupted: asyncio.CancelledError | None = None
    while not work.done():
        try:
            await asyncio.wait({work})
        except asyncio.CancelledError as error:
            interrupted = error
    return interrupted


async def in_thread(function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """Run a blocking function beside the event loop.

    On cancellation its end is awaited: a thread can't be killed, and nobody may delete folders under it.
    """
    work = asyncio.ensure_future(asyncio.to_thread(function, *args, **kwargs))
    interrupted = await wait_out(work)
    if interrupted is not None:
        raise interrupted from work.exception()
    return work.result()
