"""Several things at once that fail as one."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Iterable
from typing import Any, TypeVar

T = TypeVar("T")


async def together(coroutines: Iterable[Coroutine[Any, Any, T]]) -> list[T]:
    """What all of them return, in the order given. When one fails, the others are cancelled and have ended first.

    `asyncio.gather` would leave them running, and the teardown of a loop waits for ever for a program that was just
    being started.

    Raises:
        BaseException: the first failure alone, as it was raised; what the others raise on their way out is dropped.
    """
    listed = list(coroutines)
    if len(listed) == 1:  # the usual case, and cheaper without a task of its own
        return [await listed[0]]
    try:
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(one) for one in listed]
    except BaseExceptionGroup as failures:
        first = failures.exceptions[0]
    else:
        return [task.result() for task in tasks]
    # Outside of the handler, so that the error keeps its own cause and gets no group for a context.
    raise first
