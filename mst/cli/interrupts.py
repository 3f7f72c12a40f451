"""Ctrl-C: the first lets units in flight end and keeps what came back, the second leaves at once."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

import click

from mst.shards.contract import Cancel


@contextmanager
def cancelled_by_interrupt(cancel: Cancel) -> Iterator[None]:
    """Turn SIGINT and SIGTERM into a cancel while the block runs."""

    def handle(number: int, _frame: FrameType | None) -> None:
        if cancel.is_set():
            cancel.leave()
            return
        click.echo("\nmst: stopping after the units in flight; once more to leave at once", err=True)
        cancel.set("interrupted by the user" if number == signal.SIGINT else "the coordinator was asked to end")

    before = {number: signal.signal(number, handle) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
