"""Many transfers at once, in bounded memory."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from queue import SimpleQueue
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


def each_as_it_ends(action: Callable[[T], R], items: Iterable[T], *, workers: int) -> Iterator[R]:
    """The same in the order in which they end: nobody waits for the slowest.

    `workers` items are under way, or done and not consumed, while the caller consumes one more; the next is taken from
    `items` meanwhile.
    """
    done: SimpleQueue[Future[R]] = SimpleQueue()
    pending: set[Future[R]] = set()

    def next_result() -> R:
        future = done.get()
        pending.remove(future)
        return future.result()

    def start(item: T) -> None:
        future = pool.submit(action, item)
        pending.add(future)
        future.add_done_callback(done.put)

    with ThreadPoolExecutor(workers, thread_name_prefix="mst-store") as pool:
        try:
            for item in items:
                if len(pending) < workers:
                    start(item)
                    continue
                result = next_result()
                start(item)  # First: whoever consumes the result takes long, and no worker is to be idle meanwhile.
                yield result
            while pending:
                yield next_result()
        finally:
            for future in pending:
                future.cancel()


def one_ahead(pool: Executor, action: Callable[[T], R], items: Iterable[T]) -> Iterator[R]:
    """The results of an action on every item, in order; the next one comes while one is consumed."""
    before: Future[R] | None = None
    for item in items:
        coming = pool.submit(action, item)
        if before is not None:
            yield before.result()
        before = coming
    if before is not None:
        yield before.result()
