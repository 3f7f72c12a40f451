"""Many transfers at once, in bounded memory."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TypeVar

T = TypeVar("T")
R = TypeVar("R")

WORKERS = 16
_WINDOW = 4


def each(action: Callable[[T], R], items: Iterable[T], *, workers: int = WORKERS, window: int = _WINDOW) -> Iterator[R]:
    """The results of an action on every item, in order, with `workers` threads at work.

    At most `window` items per worker are taken ahead of what the caller has consumed. The first error ends it: no other
    item starts, those under way finish, then the error is raised.
    """
    pending: deque[Future[R]] = deque()
    with ThreadPoolExecutor(workers, thread_name_prefix="mst-store") as pool:
        try:
            for item in items:
                pending.append(pool.submit(action, item))
                if len(pending) >= workers * window:
                    yield pending.popleft().result()
            while pending:
                yield pending.popleft().result()
        finally:
            for future in pending:
                future.cancel()


def run_each(action: Callable[[T], object], items: Iterable[T], *, workers: int = WORKERS) -> None:
    """The same, where only the errors matter."""
    for _ in each(action, items, workers=workers):
        pass
