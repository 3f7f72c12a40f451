"""Ctrl-C twice: whoever is at work is ended and cleans up, wherever the second one hits."""

import asyncio
import signal

import pytest

from mst.cli.interrupts import cancelled_by_interrupt
from mst.shards.contract import Cancel


def interrupt():
    signal.raise_signal(signal.SIGINT)


def test_the_first_interrupt_is_a_cancel(capsys):
    cancel = Cancel()
    with cancelled_by_interrupt(cancel):
        interrupt()
    assert cancel.reason == "interrupted by the user"
    assert "once more to leave at once" in capsys.readouterr().err


def test_handlers_are_as_before_afterwards():
    before = signal.getsignal(signal.SIGINT)
    with cancelled_by_interrupt(Cancel()):
        assert signal.getsignal(signal.SIGINT) is not before
    assert signal.getsignal(signal.SIGINT) is before


def test_the_second_interrupt_ends_what_does_not_wait_for_anything():
    with cancelled_by_interrupt(Cancel()):
        interrupt()
        with pytest.raises(KeyboardInterrupt):
            interrupt()


def test_the_second_interrupt_lets_everybody_clean_up():
    cleaned = []

    async def waits(name):
        try:
            await asyncio.Event().wait()
        finally:
            await asyncio.sleep(0)
            cleaned.append(name)

    async def is_hit():
        await asyncio.sleep(0)
        interrupt()
        try:
            await asyncio.sleep(0)
        finally:
            interrupt()  # In the middle of whatever a task does: of clearing away, for instance.
            await asyncio.sleep(0)
            cleaned.append("hit")

    async def group(*members):
        try:
            async with asyncio.TaskGroup() as tasks:
                for member in members:
                    tasks.create_task(member)
        finally:
            await asyncio.sleep(0)
            cleaned.append("group")

    cancel = Cancel()
    with pytest.raises(KeyboardInterrupt), cancelled_by_interrupt(cancel):
        cancel.run(group(group(is_hit(), waits("a")), waits("b")))
    assert sorted(cleaned) == ["a", "b", "group", "group", "hit"]
